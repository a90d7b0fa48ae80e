"""Which keys each row of a pass reads, laid out once for all layers of one window.

Rows are cut into query tiles of a fixed size and keys into blocks counted from position 0. Every (tile, block, kv head)
is one matrix product of a fixed shape, so row counts, owners and chunk sizes change only how many products there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forerun.models.base import AttentionGroup
from forerun.models.device_pass import moved_together

QUERY_TILE = 8
KEY_BLOCK = 64

# Products (tile, block, kv head) at a time: 64 MiB of keys in fp32 at width 128, whatever the context's length.
MAX_PRODUCTS = 2048


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The layout of one pass for one window, shared by all layers that have it. Built by ``plan_attention``.

    The parts are worked through one after another, which bounds the memory that a long context takes.
    """

    num_heads: int
    num_kv_heads: int
    parts: tuple[PlanPart, ...]
    row_lane: Tensor  # int64 [rows], where each row's result lies in the lanes of all parts

    @property
    def num_shared(self) -> int:
        """Query heads that share a kv head."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class PlanPart:
    """Some tiles and the key blocks that they see.

    T tiles, sorted by how many key blocks they need (most first); W work items (tile, block), the blocks' rank within
    its tile being the slow index. ``counts[b]`` tiles have a block of rank b, and they are the first ones.
    """

    counts: tuple[int, ...]
    tile_rows: Tensor  # int64 [T * QUERY_TILE], the row in each lane; spare lanes repeat a real row
    item_tile: Tensor  # int64 [W]
    key_index: Tensor  # int64 [W * kv heads * KEY_BLOCK], slot * kv heads + head
    mask: Tensor  # fp32 [W, 1, QUERY_TILE, 1, KEY_BLOCK], 0 or -inf
    visible: Tensor  # fp32, the same shape, 1 where the mask is 0 and else 0


@dataclass(frozen=True, slots=True)
class _Tile:
    group: int
    rows: tuple[int, ...]
    positions: tuple[int, ...]
    first_block: int
    num_blocks: int


def _cut_tiles(positions: Sequence[int], groups: Sequence[AttentionGroup], window: int | None) -> list[_Tile]:
    tiles = []
    for index, group in enumerate(groups):
        for start in range(0, len(group.rows), QUERY_TILE):
            rows = group.rows[start : start + QUERY_TILE]
            rows += rows[-1:] * (QUERY_TILE - len(rows))
            at = tuple(positions[row] for row in rows)
            oldest = 0 if window is None else max(0, min(at) - window + 1)
            first_block = oldest // KEY_BLOCK
            tiles.append(_Tile(index, rows, at, first_block, max(at) // KEY_BLOCK - first_block + 1))
    tiles.sort(key=lambda tile: -tile.num_blocks)
    return tiles


def plan_attention(
    positions: Tensor,
    groups: Sequence[AttentionGroup],
    *,
    num_heads: int,
    num_kv_heads: int,
    window: int | None = None,
    device: torch.device | None = None,
) -> AttentionPlan:
    """Lays out one pass. ``positions`` is int64 [rows]; each row lies in exactly one group.

    A row at position p sees positions 0..p, with a window the last ``window`` of them (itself included). The plan lies
    on ``device``, by default where the positions are; positions on the CPU spare a wait for another device.
    """
    device = device or positions.device
    at = positions.tolist()
    tiles = _cut_tiles(at, groups, window)
    table = torch.nn.utils.rnn.pad_sequence([group.slots for group in groups], batch_first=True)
    limit = max(1, MAX_PRODUCTS // num_kv_heads)
    parts = tuple(_plan_part(part, table, num_kv_heads, window, device) for part in _parts_of(tiles, limit))
    lanes = torch.tensor([row for tile in tiles for row in tile.rows], dtype=torch.int64)
    row_lane = torch.zeros(len(at), dtype=torch.int64)
    row_lane[lanes.flip(0)] = torch.arange(len(lanes)).flip(0)
    return AttentionPlan(num_heads, num_kv_heads, parts, *moved_together([row_lane], device))


def _parts_of(tiles: Sequence[_Tile], max_items: int) -> Iterator[Sequence[_Tile]]:
    """Cuts tiles, in order, where their blocks come to more than ``max_items``; a tile by itself may have more."""
    start, num_items = 0, 0
    for index, tile in enumerate(tiles):
        if index > start and num_items + tile.num_blocks > max_items:
            yield tiles[start:index]
            start, num_items = index, 0
        num_items += tile.num_blocks
    if tiles:
        yield tiles[start:]


def _plan_part(
    tiles: Sequence[_Tile], table: Tensor, num_kv_heads: int, window: int | None, device: torch.device
) -> PlanPart:
    """``table`` holds the slots of every group, int64 [groups, longest], on the CPU."""
    counts = tuple(sum(tile.num_blocks > rank for tile in tiles) for rank in range(tiles[0].num_blocks))
    item_tile = torch.cat([torch.arange(count) for count in counts])
    item_rank = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    tile_group = torch.tensor([tile.group for tile in tiles])
    tile_positions = torch.tensor([tile.positions for tile in tiles])  # [T, QUERY_TILE]
    first_block = torch.tensor([tile.first_block for tile in tiles])

    blocks = first_block[item_tile] + item_rank
    key_positions = blocks[:, None] * KEY_BLOCK + torch.arange(KEY_BLOCK)  # [W, KEY_BLOCK]
    # Keys behind a tile's newest position may never have been written: masked lanes read the newest instead.
    newest = tile_positions.amax(1)[item_tile]
    readable = torch.minimum(key_positions, newest[:, None])
    slots = table[tile_group[item_tile][:, None], readable]
    tile_rows = torch.tensor([tile.rows for tile in tiles]).flatten()

    # What is large is worked out where it is used, from what is small.
    tile_rows, item_tile, slots, key_positions, row_positions = moved_together(
        [tile_rows, item_tile, slots, key_positions, tile_positions[item_tile]], device
    )
    row_positions = row_positions[:, :, None]
    hidden = key_positions[:, None, :] > row_positions
    if window is not None:
        hidden |= key_positions[:, None, :] <= row_positions - window
    mask = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, float("-inf"))[:, None, :, None, :]
    heads = torch.arange(num_kv_heads, device=device)
    key_index = slots[:, None, :] * num_kv_heads + heads[:, None]  # [W, kv heads, KEY_BLOCK]
    return PlanPart(counts, tile_rows, item_tile, key_index.flatten(), mask, (mask == 0).float())
