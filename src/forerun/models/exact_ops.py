"""Activations built only from operations whose bits don't depend on where an element lies.

torch's fp32 ``silu``, ``sigmoid`` and ``gelu`` take another path in the tail of a vectorised loop, so an element's bits
change with the row count. ``exp`` and ``tanh`` don't, and the four basic operations are correctly rounded everywhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Beyond these e^x is no normal fp32 number, and MKL takes up to fifty times as long over it.
LOWEST_EXPONENT, HIGHEST_EXPONENT = -87.0, 88.0


def exp_bounded(x: Tensor) -> Tensor:
    """e^x in fp32, with x cut where the result would underflow or overflow."""
    return torch.exp(x.clamp(LOWEST_EXPONENT, HIGHEST_EXPONENT))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x), in fp32."""
    return 1 / (exp_bounded(-x.float()) + 1)


def silu(x: Tensor) -> Tensor:
    """x / (1 + e^-x), in fp32."""
    x = x.float()
    return x / (exp_bounded(-x) + 1)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU's tanh form (Hendrycks and Gimpel 2016, section 2), in fp32."""
    x = x.float()
    inner = (x * x * x * 0.044715 + x) * math.sqrt(2 / math.pi)
    return (torch.tanh(inner) + 1) * x * 0.5


def softcap(x: Tensor, cap: float) -> Tensor:
    """cap · tanh(x / cap)."""
    return torch.tanh(x / cap) * cap
