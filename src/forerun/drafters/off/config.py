"""Plain decoding has no knobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffConfig:
    """No knobs."""
