"""The two ways to compute a decoder's pass through torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forerun.models.arithmetic.attention import Attention, AttentionShape
from forerun.models.arithmetic.linear import Linear
from forerun.models.arithmetic.sdpa_attention import SdpaAttention
from forerun.models.arithmetic.tiled_attention import TiledAttention
from forerun.models.arithmetic.untiled_linear import UntiledLinear
from forerun.models.tiled_linear import TiledLinear


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What a decoder is built from. ``is_bit_exact``: rows have the same bits whatever lies beside them, on a CPU."""

    is_bit_exact: bool
    linear: type[Linear]
    attention: Callable[[AttentionShape], Attention[Any]]


def _fastest_attention(shape: AttentionShape) -> Attention[Any]:
    return SdpaAttention(shape) if shape.softcap is None else TiledAttention(shape)


EXACT = Arithmetic(True, TiledLinear, TiledAttention)
# One product for all rows, torch's own attention: to compare with, and for devices on which nothing is promised anyway.
INEXACT = Arithmetic(False, UntiledLinear, _fastest_attention)
