"""Number types of weights and pool: each combination has a text of its own, and its own reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Numbers:
    """``weights`` as ``load_target`` takes its dtype."""

    weights: str

    @property
    def label(self) -> str:
        """For names of files and tables."""
        return self.weights


NUMBERS = [Numbers("bfloat16"), Numbers("float32")]
