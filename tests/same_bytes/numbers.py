"""Number types of weights and pool: each combination has a text of its own, and its own reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Numbers:
    """``weights`` as ``load_target`` takes its dtype, ``kv`` as the engine does; auto: like the weights."""

    weights: str
    kv: str = "auto"

    @property
    def label(self) -> str:
        """For names of files and tables."""
        return self.weights if self.kv == "auto" else f"{self.weights} kv {self.kv}"


NUMBERS = [Numbers("bfloat16"), Numbers("bfloat16", "int8"), Numbers("bfloat16", "float32"), Numbers("float32")]
