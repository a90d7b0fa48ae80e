"""A linear layer whose output rows have the same bits whatever lies beside them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from forerun.models.arithmetic.linear import PACKED_FOR, Linear

ROW_TILE = PACKED_FOR

# MKL's fp32 product cuts a long inner dimension differently for one and for two threads; up to this length it doesn't.
INNER_BLOCK = 256
# From three threads on, MKL also rounds differently where outputs beyond the first 16 aren't a multiple of 16.
OUTPUT_BLOCK = 16


def num_padded(num_rows: int) -> int:
    """``num_rows`` rounded up to whole row tiles."""
    return -(-num_rows // ROW_TILE) * ROW_TILE


def pad_rows(rows: Tensor) -> Tensor:
    """Zero rows added at the end up to whole row tiles; the input itself where none are missing."""
    missing = num_padded(rows.shape[0]) - rows.shape[0]
    return rows if missing == 0 else F.pad(rows, (0, 0) * (rows.dim() - 1) + (0, missing))


class TiledLinear(Linear):
    """In tiles of exactly ``ROW_TILE`` rows, one product of one shape after another.

    Rows are padded with zeros up to the tile. fp32 weights accumulate and return fp32.
    """

    def _rows(self, x: Tensor) -> Tensor:
        done = [self._product(tile) for tile in torch.split(pad_rows(x), ROW_TILE)]
        out = done[0] if len(done) == 1 else torch.cat(done) if done else x.new_zeros(0, self.num_outputs)
        return out[: len(x)]

    def _plain_product(self, x: Tensor) -> Tensor:
        return tile_product(x, self.weight, self.bias)


def tile_product(tile: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``tile @ weight.T + bias`` for a tile [ROW_TILE, in] in the weight's dtype; fp32 on a CPU by inner blocks."""
    if weight.dtype is not torch.float32 or weight.device.type != "cpu":
        return F.linear(tile, weight, bias)
    inner = zip(torch.split(tile, INNER_BLOCK, 1), torch.split(weight, INNER_BLOCK, 1), strict=True)
    parts = (_whole_blocks(part, block.t()) for part, block in inner)
    out = next(parts)
    for part in parts:
        out += part
    return out if bias is None else out.add_(bias)


def _whole_blocks(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight`` [in, out]; the outputs behind the last whole block are a product of their own."""
    num_whole = weight.shape[1] // OUTPUT_BLOCK * OUTPUT_BLOCK
    if num_whole in (0, weight.shape[1]):
        return torch.mm(x, weight)
    return torch.cat([torch.mm(x, weight[:, :num_whole]), torch.mm(x, weight[:, num_whole:])], 1)
