"""Attention through torch's own kernel, whose bits depend on what lies beside a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from forerun.models.arithmetic.attention import Attention
from forerun.models.base import AttentionGroup
from forerun.models.kv_layer import KVLayer


@dataclass(frozen=True, slots=True)
class SdpaBatch:
    """Groups of like size in one call. ``mask`` None: every row sees every key."""

    rows: Tensor  # int64 [groups, R]; spare places repeat a real row
    slots: Tensor  # int64 [groups, L]; spare places repeat a real slot and are masked
    mask: Tensor | None  # bool [groups, 1, R, L]


@dataclass(frozen=True, slots=True)
class SdpaPlan:
    """``row_lane`` int64 [rows]: where each row's result lies in those of all batches."""

    batches: tuple[SdpaBatch, ...]
    row_lane: Tensor


class SdpaAttention(Attention[SdpaPlan]):
    """``scaled_dot_product_attention`` over gathered keys. Has no soft cap."""

    def plan(self, positions: Tensor, groups: Sequence[AttentionGroup], window: int | None) -> SdpaPlan:
        """See ``Attention``. Groups share a call when rows and keys agree to a power of two."""
        at = positions.cpu()
        alike: dict[tuple[int, int], list[_Span]] = defaultdict(list)
        for group in groups:
            span = _Span.of(group, at, window)
            alike[len(group.rows).bit_length(), span.num_keys.bit_length()].append(span)
        batches = tuple(_batch(spans, window, positions.device) for spans in alike.values())
        lanes = torch.cat([batch.rows.flatten() for batch in batches])
        row_lane = torch.empty(len(positions), dtype=torch.int64, device=positions.device)
        row_lane[lanes] = torch.arange(len(lanes), device=positions.device)
        return SdpaPlan(batches, row_lane)

    def attend(self, queries: Tensor, layer: KVLayer, plan: SdpaPlan) -> Tensor:
        """See ``Attention``. Products are in the pool's number type; an int8 pool is multiplied in fp32."""
        lanes = [self._attend_batch(queries, layer, batch) for batch in plan.batches]
        return torch.cat(lanes).index_select(0, plan.row_lane).float()

    def _attend_batch(self, queries: Tensor, layer: KVLayer, batch: SdpaBatch) -> Tensor:
        """[groups * R, heads, value width]."""
        keys, values = layer.read_keys(batch.slots), layer.read_values(batch.slots)  # [groups, L, kv heads, width]
        mixed = F.scaled_dot_product_attention(
            queries[batch.rows].to(keys.dtype).transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=batch.mask,
            scale=self.shape.scale,
            enable_gqa=self.shape.num_heads != self.shape.num_kv_heads,
        )
        return mixed.transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True, slots=True)
class _Span:
    """A group with the positions of its rows and the slots of the positions that any of them sees."""

    rows: tuple[int, ...]
    positions: Tensor  # int64 [rows], on the CPU
    slots: Tensor  # int64 [num_keys]
    oldest: int

    @classmethod
    def of(cls, group: AttentionGroup, positions: Tensor, window: int | None) -> _Span:
        own = positions[list(group.rows)]
        oldest = 0 if window is None else max(0, int(own.min()) - window + 1)
        return cls(group.rows, own, group.slots[oldest : int(own.max()) + 1], oldest)

    @property
    def num_keys(self) -> int:
        return len(self.slots)


def _batch(spans: Sequence[_Span], window: int | None, device: torch.device) -> SdpaBatch:
    num_rows = max(len(span.rows) for span in spans)
    num_keys = max(span.num_keys for span in spans)
    rows = torch.tensor([span.rows + span.rows[-1:] * (num_rows - len(span.rows)) for span in spans])
    at = torch.stack([_padded(span.positions, num_rows) for span in spans])  # [groups, R]
    slots = torch.stack([_padded(span.slots.cpu(), num_keys) for span in spans])
    # [groups, L]; the spare keys' positions lie behind every row's
    key_positions = torch.tensor([span.oldest for span in spans])[:, None] + torch.arange(num_keys)
    seen = key_positions[:, None, :] <= at[:, :, None]
    if window is not None:
        seen &= key_positions[:, None, :] > at[:, :, None] - window
    mask = None if bool(seen.all()) else seen[:, None].to(device)
    return SdpaBatch(rows.to(device), slots.to(device), mask)


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat([values, values[-1:].expand(length - len(values))])
