"""One pool layer: keys and values by slot, in the pool's own number type, fp32 to whoever attends over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# int8 keys and values use -127..127, so that a number and its negative are held alike.
INT8_MAX = 127


@dataclass(frozen=True, slots=True)
class KVLayer:
    """``keys`` and ``values`` [slots, kv heads, width] in fp32, bf16, fp16 or int8; views of the store's tensors.

    With int8 a number is its byte times the scale of its slot and head, ``key_scales`` and ``value_scales`` fp32
    [slots, kv heads]; without, there are no scales.
    """

    keys: Tensor
    values: Tensor
    key_scales: Tensor | None = None
    value_scales: Tensor | None = None

    def write(self, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Stores rows: ``slots`` int64 [rows], ``keys`` and ``values`` fp32 or bf16 [rows, kv heads, width]."""
        for pool, scales, rows in ((self.keys, self.key_scales, keys), (self.values, self.value_scales, values)):
            if scales is None:
                pool.index_copy_(0, slots, rows.to(pool.dtype))
            else:
                numbers, row_scales = quantise(rows)
                pool.index_copy_(0, slots, numbers)
                scales.index_copy_(0, slots, row_scales)

    def read_keys(self, slots: Tensor) -> Tensor:
        """Keys at ``slots`` (int64, any shape), [*slots, kv heads, width] in the pool's number type, for int8 fp32."""
        return _read(self.keys, self.key_scales, slots)

    def read_values(self, slots: Tensor) -> Tensor:
        """Values at ``slots`` (int64, any shape), [*slots, kv heads, width] in the pool's number type, int8 as fp32."""
        return _read(self.values, self.value_scales, slots)

    def gather_keys(self, index: Tensor) -> Tensor:
        """Keys at ``index`` (int64 [n], slot * kv heads + head), fp32 [n, width]."""
        return _gather(self.keys, self.key_scales, index)

    def gather_values(self, index: Tensor) -> Tensor:
        """Values at ``index`` (int64 [n], slot * kv heads + head), fp32 [n, width]."""
        return _gather(self.values, self.value_scales, index)


def quantise(rows: Tensor) -> tuple[Tensor, Tensor]:
    """int8 [rows, heads, width] and fp32 scales [rows, heads] of fp32 or bf16 rows, each head by itself.

    The scale is the largest magnitude over 127; numbers are divided by it and rounded half to even. Scale 0 stands
    for a head of zeros. A head with a number that isn't finite reads back as NaN.
    """
    rows = rows.float()
    scales = rows.abs().amax(-1, keepdim=True) / INT8_MAX
    divisors = torch.where(scales == 0, 1.0, scales)
    # Where the scale is so small that fp32 rounds it coarsely, a quotient can be more than 127.
    numbers = torch.round(rows / divisors).clamp_(-INT8_MAX, INT8_MAX)
    numbers.masked_fill_(torch.isnan(numbers), 0)
    return numbers.to(torch.int8), scales.squeeze(-1)


def _read(pool: Tensor, scales: Tensor | None, slots: Tensor) -> Tensor:
    return pool[slots] if scales is None else pool[slots].float().mul_(scales[slots][..., None])


def _gather(pool: Tensor, scales: Tensor | None, index: Tensor) -> Tensor:
    rows = pool.flatten(0, 1).index_select(0, index).float()
    return rows if scales is None else rows.mul_(scales.flatten().index_select(0, index)[:, None])
