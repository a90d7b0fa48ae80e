"""Number types of weights and pool: each combination has a text of its own, and its own reference."""

from __future__ import annotations

from dataclasses import dataclass

from forerun.models.device import AS_SHIPPED, INT8
from forerun.models.native.kernels import find_kernels

PLAIN = ("bfloat16", "float32")
BLOCKS = (AS_SHIPPED, INT8)
POOLS = ("auto", "int8", "float32")


@dataclass(frozen=True)
class Numbers:
    """``weights`` as ``load_target`` takes its dtype, ``kv`` as the engine does; auto: like the weights."""

    weights: str
    kv: str = "auto"

    @classmethod
    def of(cls, weights: str, kv: str) -> Numbers:
        """With one name for one thing: fp32 keys and values under fp32 weights are what auto is."""
        return cls(weights, "auto" if weights == kv == "float32" else kv)

    @property
    def label(self) -> str:
        """For names of files and tables."""
        return self.weights if self.kv == "auto" else f"{self.weights} kv {self.kv}"


def weights_here() -> list[str]:
    """What the kernels in force can multiply: torch has none for blocks."""
    return [*PLAIN, *(BLOCKS if find_kernels() else ())]
