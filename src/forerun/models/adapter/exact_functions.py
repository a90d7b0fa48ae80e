"""Swaps the operations of a model's own code whose bits depend on the place of a row for exact ones.

The library's modules call torch directly, so the swap is a torch function mode around a pass: linears (routers and
experts hold bare weights), and the activations whose vectorised tail takes another path (see ``exact_ops``). Measured
in torch 2.13: exp, expm1, log1p, tanh, erf, sin, cos, rsqrt and the powers 3 and -1/2 need no swap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from forerun.models import exact_ops
from forerun.models.tiled_linear import ROW_TILE, pad_rows, tile_product


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias`` for [..., in], in tiles of ``ROW_TILE`` rows and, in fp32 on a CPU, of inner blocks.

    The functional twin of ``TiledLinear``: same products in the same order.
    """
    flat = x.reshape(-1, x.shape[-1])
    tiles = [tile_product(tile, weight, bias) for tile in torch.split(pad_rows(flat), ROW_TILE)]
    out = tiles[0] if len(tiles) == 1 else torch.cat(tiles)
    return out[: flat.shape[0]].view(*x.shape[:-1], weight.shape[0])


def _sigmoid(x: Tensor) -> Tensor:
    return exact_ops.sigmoid(x).to(x.dtype)


def _silu(x: Tensor, inplace: bool = False) -> Tensor:
    return exact_ops.silu(x).to(x.dtype)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return exact_ops.gelu_tanh(x).to(x.dtype)
    return (x.float() * 0.5 * (torch.erf(x.float() * 2**-0.5) + 1)).to(x.dtype)


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    scaled = x.float() * beta
    return torch.where(scaled > threshold, x.float(), torch.log1p(torch.exp(scaled)) / beta).to(x.dtype)


_EXACT: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.linear: linear,
    torch.sigmoid: _sigmoid,
    Tensor.sigmoid: _sigmoid,
    F.sigmoid: _sigmoid,
    F.silu: _silu,
    F.gelu: _gelu,
    F.softplus: _softplus,
}


class ExactFunctions(TorchFunctionMode):
    """While active, the functions above replace torch's own in this thread."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        exact: Callable[..., Any] = _EXACT.get(func, func)
        return exact(*args, **(kwargs or {}))
