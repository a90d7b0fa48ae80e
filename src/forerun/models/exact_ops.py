"""Activations built only from operations whose bits don't depend on where an element lies.

torch's fp32 ``silu``, ``sigmoid`` and ``gelu`` take another path in the tail of a vectorised loop, so an element's bits
change with the row count. ``exp`` and ``tanh`` don't, and the four basic operations are correctly rounded everywhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x), in fp32."""
    return 1 / (torch.exp(-x.float()) + 1)


def silu(x: Tensor) -> Tensor:
    """x / (1 + e^-x), in fp32."""
    x = x.float()
    return x / (torch.exp(-x) + 1)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU's tanh form (Hendrycks and Gimpel 2016, section 2), in fp32."""
    x = x.float()
    inner = (x * x * x * 0.044715 + x) * math.sqrt(2 / math.pi)
    return (torch.tanh(inner) + 1) * x * 0.5


def softcap(x: Tensor, cap: float) -> Tensor:
    """cap · tanh(x / cap)."""
    return torch.tanh(x / cap) * cap
