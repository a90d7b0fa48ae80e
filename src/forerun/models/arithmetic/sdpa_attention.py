"""Attention through torch's own kernel, whose bits depend on what lies beside a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from forerun.models.arithmetic.attention import CPU, Attention
from forerun.models.base import AttentionGroup
from forerun.models.device_pass import moved_together
from forerun.models.kv_layer import KVLayer


@dataclass(frozen=True, slots=True)
class SdpaBatch:
    """Groups of like size in one call. ``mask`` None: every row sees every key."""

    rows: Tensor  # int64 [groups, R]; spare places repeat a real row
    slots: Tensor  # int64 [groups, L]; spare places repeat a real slot and are masked
    mask: Tensor | None  # bool [groups, 1, R * shared, L], query heads that share a kv head one after another


@dataclass(frozen=True, slots=True)
class SdpaPlan:
    """``row_lane`` int64 [rows]: where each row's result lies in those of all batches."""

    batches: tuple[SdpaBatch, ...]
    row_lane: Tensor


class SdpaAttention(Attention[SdpaPlan]):
    """``scaled_dot_product_attention`` over gathered keys. Has no soft cap.

    Query heads that share a kv head lie along the rows: not every kernel of every device takes fewer kv heads, and
    torch's way around it copies keys.
    """

    def plan(
        self, positions: Tensor, groups: Sequence[AttentionGroup], window: int | None, device: torch.device = CPU
    ) -> SdpaPlan:
        """See ``Attention``. Groups share a call when rows and keys agree to a power of two."""
        alike: dict[tuple[int, int], list[_Span]] = defaultdict(list)
        for group in groups:
            span = _Span.of(group, positions, window)
            alike[len(group.rows).bit_length(), span.num_keys.bit_length()].append(span)
        batches = tuple(self._batch(spans, window, device) for spans in alike.values())
        lanes = torch.tensor([row for spans in alike.values() for row in _rows_of(spans)])
        row_lane = torch.empty(len(positions), dtype=torch.int64)
        row_lane[lanes] = torch.arange(len(lanes))
        return SdpaPlan(batches, *moved_together([row_lane], device))

    def mask(self, row_positions: Tensor, key_positions: Tensor, window: int | None) -> Tensor:
        """Which of the keys [groups, L] the rows [groups, R] see, both int64 positions, as ``SdpaBatch`` has it."""
        seen = key_positions[:, None, :] <= row_positions[:, :, None]
        if window is not None:
            seen &= key_positions[:, None, :] > row_positions[:, :, None] - window
        return seen[:, :, None].expand(-1, -1, self.num_shared, -1).flatten(1, 2)[:, None]

    @property
    def num_shared(self) -> int:
        """Query heads that share a kv head."""
        return self.shape.num_heads // self.shape.num_kv_heads

    def attend(self, queries: Tensor, layer: KVLayer, plan: SdpaPlan) -> Tensor:
        """See ``Attention``. Products are in the pool's number type; an int8 pool is multiplied in fp32."""
        lanes = [self._attend_batch(queries, layer, batch) for batch in plan.batches]
        return torch.cat(lanes).index_select(0, plan.row_lane).float()

    def _attend_batch(self, queries: Tensor, layer: KVLayer, batch: SdpaBatch) -> Tensor:
        """[groups * R, heads, value width]."""
        num_groups, num_rows = batch.rows.shape
        kv_heads, shared = self.shape.num_kv_heads, self.num_shared
        keys, values = layer.read_keys(batch.slots), layer.read_values(batch.slots)  # [groups, L, kv heads, width]
        asked = queries[batch.rows].to(keys.dtype).view(num_groups, num_rows, kv_heads, shared, -1)
        mixed = F.scaled_dot_product_attention(
            asked.transpose(1, 2).flatten(2, 3),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=batch.mask,
            scale=self.shape.scale,
        )
        lanes = mixed.reshape(num_groups, kv_heads, num_rows, shared, -1).transpose(1, 2)
        return lanes.reshape(num_groups * num_rows, self.shape.num_heads, -1)

    def _batch(self, spans: Sequence[_Span], window: int | None, device: torch.device) -> SdpaBatch:
        num_rows = max(len(span.rows) for span in spans)
        num_keys = max(span.num_keys for span in spans)
        at = torch.stack([_padded(span.positions, num_rows) for span in spans])  # [groups, R]
        slots = torch.stack([_padded(span.slots, num_keys) for span in spans])
        # [groups, L]; the spare keys' positions lie behind every row's
        key_positions = torch.tensor([span.oldest for span in spans])[:, None] + torch.arange(num_keys)
        sees_newest = bool((key_positions[:, -1] <= at.amin(1)).all())
        sees_oldest = window is None or bool((key_positions[:, 0] > at.amax(1) - window).all())
        rows = torch.tensor(_rows_of(spans)).view(len(spans), num_rows)
        rows, slots, at, key_positions = moved_together([rows, slots, at, key_positions], device)
        return SdpaBatch(rows, slots, None if sees_newest and sees_oldest else self.mask(at, key_positions, window))


@dataclass(frozen=True, slots=True)
class _Span:
    """A group with the positions of its rows and the slots of the positions that any of them sees."""

    rows: tuple[int, ...]
    positions: Tensor  # int64 [rows]
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


def _rows_of(spans: Sequence[_Span]) -> list[int]:
    """Rows of one batch, each group's padded to the longest."""
    num_rows = max(len(span.rows) for span in spans)
    return [row for span in spans for row in span.rows + span.rows[-1:] * (num_rows - len(span.rows))]


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat([values, values[-1:].expand(length - len(values))])
