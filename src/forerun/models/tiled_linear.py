"""A linear layer whose output rows have the same bits whatever lies beside them."""

from __future__ import annotations

import platform

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROW_TILE = 16

# MKL's fp32 product cuts a long inner dimension differently for one and for two threads; up to this length it doesn't.
INNER_BLOCK = 256


def num_padded(num_rows: int) -> int:
    """``num_rows`` rounded up to whole row tiles."""
    return -(-num_rows // ROW_TILE) * ROW_TILE


def pad_rows(rows: Tensor) -> Tensor:
    """Zero rows added at the end up to whole row tiles; the input itself where none are missing."""
    missing = num_padded(rows.shape[0]) - rows.shape[0]
    return rows if missing == 0 else F.pad(rows, (0, 0) * (rows.dim() - 1) + (0, missing))


class TiledLinear(nn.Module):
    """``x @ weight.T + bias`` in tiles of exactly ``ROW_TILE`` rows, one product of one shape after another.

    ``weight`` is [out, in]; inputs are cast to its dtype and the result has it. fp32 weights accumulate and return
    fp32. Rows are padded with zeros up to the tile.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.num_outputs = weight.shape[0]
        self.dtype = weight.dtype
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self._packed: Tensor | None = None

    def pack(self) -> None:
        """Lays the weight out for the CPU's vector and matrix units: a third less time, rows as independent as before.

        The plain weight is given up, so load first. Does nothing where torch has no such layout.
        """
        is_packable = self.weight.device.type == "cpu" and self.dtype in (torch.bfloat16, torch.float32)
        if is_packable and _has_packed_linears(self.dtype):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.data, ROW_TILE)
            self.give_up_weight()

    def give_up_weight(self) -> None:
        """Frees the plain weight, after which it lives packed, here or elsewhere."""
        self.weight = nn.Parameter(self.weight.new_empty(0), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        flat = x.reshape(-1, x.shape[-1]).to(self.dtype)
        tiles = torch.split(pad_rows(flat), ROW_TILE)
        done = [self._tile(tile) for tile in tiles]
        out = done[0] if len(done) == 1 else torch.cat(done) if done else flat.new_zeros(0, self.num_outputs)
        return out[: flat.shape[0]].view(*x.shape[:-1], self.num_outputs)

    def _tile(self, tile: Tensor) -> Tensor:
        if self._packed is not None:
            packed: Tensor = torch.ops.mkldnn._linear_pointwise(tile, self._packed, self.bias, "none", [], "")
            return packed
        return tile_product(tile, self.weight, self.bias)


def tile_product(tile: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``tile @ weight.T + bias`` for a tile [ROW_TILE, in] in the weight's dtype; fp32 on a CPU by inner blocks."""
    if weight.dtype is not torch.float32 or weight.device.type != "cpu":
        return F.linear(tile, weight, bias)
    inner = zip(torch.split(tile, INNER_BLOCK, 1), torch.split(weight, INNER_BLOCK, 1), strict=True)
    parts = (torch.mm(part, block.t()) for part, block in inner)
    out = next(parts)
    for part in parts:
        out += part
    return out if bias is None else out.add_(bias)


def _has_packed_linears(dtype: torch.dtype) -> bool:
    """Whether oneDNN's linears are there. Only its x86 kernels were found to keep a row's bits at any thread count."""
    is_there = platform.machine() in ("x86_64", "AMD64") and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    return is_there and (dtype is torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))
