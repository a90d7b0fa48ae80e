"""One measured pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CostPoint:
    """Seconds of a target pass of ``rows`` rows over ``sequences`` sequences of ``context`` tokens each."""

    rows: int
    sequences: int
    context: int
    seconds: float
