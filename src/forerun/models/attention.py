"""Attention over pool slots whose bits depend on a row's own keys alone, not on its neighbours.

Rows are cut into query tiles of a fixed size and keys into blocks counted from position 0. Every (tile, block, kv head)
is one matrix product of a fixed shape, so row counts, owners and chunk sizes change only how many products there are.
Blocks are added in order; a block that a row can't see adds exact zeros. See docs/contract.md, "same bytes".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forerun.models.base import AttentionGroup
from forerun.models.exact_ops import exp_bounded
from forerun.models.kv_layer import KVLayer

QUERY_TILE = 8
KEY_BLOCK = 64


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The layout of one pass for one window, shared by all layers that have it. Built by ``plan_attention``.

    T tiles, sorted by how many key blocks they need (most first); W work items (tile, block), the blocks' rank within
    its tile being the slow index. ``counts[b]`` tiles have a block of rank b, and they are the first ones.
    """

    num_heads: int
    num_kv_heads: int
    counts: tuple[int, ...]
    tile_rows: Tensor  # int64 [T * QUERY_TILE], the row in each lane; spare lanes repeat a real row
    item_tile: Tensor  # int64 [W]
    key_index: Tensor  # int64 [W * kv heads * KEY_BLOCK] into keys viewed as [slots * kv heads, width]
    mask: Tensor  # fp32 [W, 1, QUERY_TILE, 1, KEY_BLOCK], 0 or -inf
    visible: Tensor  # fp32, the same shape, 1 where the mask is 0 and else 0
    row_lane: Tensor  # int64 [rows], where each row's result lies in [T * QUERY_TILE]


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
) -> AttentionPlan:
    """Lays out one pass. ``positions`` is int64 [rows]; each row lies in exactly one group.

    A row at position p sees positions 0..p, with a window the last ``window`` of them (itself included).
    """
    at = positions.tolist()
    device = positions.device
    tiles = _cut_tiles(at, groups, window)
    counts = tuple(sum(tile.num_blocks > rank for tile in tiles) for rank in range(tiles[0].num_blocks if tiles else 0))
    table = torch.nn.utils.rnn.pad_sequence([group.slots for group in groups], batch_first=True).to(device)

    item_tile = torch.cat([torch.arange(count) for count in counts])
    item_rank = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    tile_group = torch.tensor([tile.group for tile in tiles])
    tile_positions = torch.tensor([tile.positions for tile in tiles])  # [T, QUERY_TILE]
    first_block = torch.tensor([tile.first_block for tile in tiles])

    blocks = first_block[item_tile] + item_rank
    key_positions = blocks[:, None] * KEY_BLOCK + torch.arange(KEY_BLOCK)  # [W, KEY_BLOCK]
    row_positions = tile_positions[item_tile][:, :, None]
    hidden = key_positions[:, None, :] > row_positions
    if window is not None:
        hidden |= key_positions[:, None, :] <= row_positions - window
    mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))[:, None, :, None, :]

    # Keys behind a tile's newest position may never have been written: masked lanes read the newest instead.
    newest = tile_positions.amax(1)[item_tile]
    readable = torch.minimum(key_positions, newest[:, None])
    slots = table[tile_group[item_tile].to(device)[:, None], readable.to(device)]
    heads = torch.arange(num_kv_heads, device=device)
    key_index = slots[:, None, :] * num_kv_heads + heads[:, None]  # [W, kv heads, KEY_BLOCK]

    tile_rows = torch.tensor([tile.rows for tile in tiles]).flatten()
    row_lane = torch.zeros(len(at), dtype=torch.int64)
    row_lane[tile_rows.flip(0)] = torch.arange(len(tile_rows)).flip(0)
    return AttentionPlan(
        num_heads,
        num_kv_heads,
        counts,
        tile_rows.to(device),
        item_tile.to(device),
        key_index.flatten(),
        mask.to(device),
        (mask == 0).float().to(device),
        row_lane.to(device),
    )


def _sum_keys(weights: Tensor) -> Tensor:
    """Sum over the last axis (KEY_BLOCK wide) by halving: one fixed order, unlike ``torch.sum``."""
    while weights.shape[-1] > 1:
        half = weights.shape[-1] // 2
        weights = weights[..., :half] + weights[..., half:]
    return weights


def _in_block_order(plan: AttentionPlan, items: Tensor, combine: Callable[..., Tensor]) -> Tensor:
    """Folds the items of each tile, [W, ...] -> [T, ...], block 0 first."""
    first, *later = torch.split(items, list(plan.counts))
    folded = first.clone()
    for block in later:
        part = folded if len(block) == len(folded) else folded[: len(block)]
        combine(part, block, out=part)
    return folded


def attend(
    queries: Tensor,
    layer: KVLayer,
    plan: AttentionPlan,
    *,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attention of ``queries`` [rows, heads, width] over a pool layer, fp32 [rows, heads, value width].

    The rows' own keys and values must be written already. ``softcap`` bounds
    scores by c·tanh(s/c) before the mask; ``sinks`` [heads] are logits that take weight and give no value.
    Products and sums are fp32 whatever the layer's number type.
    """
    kv_heads, shared = plan.num_kv_heads, plan.num_heads // plan.num_kv_heads
    num_tiles, num_items = plan.counts[0], len(plan.item_tile)
    tiled = (queries.float() * scale).index_select(0, plan.tile_rows).view(num_tiles, QUERY_TILE, kv_heads, shared, -1)
    tiled = tiled.transpose(1, 2).reshape(num_tiles, kv_heads, QUERY_TILE * shared, -1)

    key_blocks = layer.gather_keys(plan.key_index).view(num_items * kv_heads, KEY_BLOCK, -1)
    value_blocks = layer.gather_values(plan.key_index).view(num_items * kv_heads, KEY_BLOCK, -1)
    scores = torch.bmm(tiled.index_select(0, plan.item_tile).flatten(0, 1), key_blocks.transpose(1, 2))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.view(num_items, kv_heads, QUERY_TILE, shared, KEY_BLOCK).add_(plan.mask)
    scores = scores.view(num_items, kv_heads, QUERY_TILE * shared, KEY_BLOCK)

    highest = _in_block_order(plan, scores.amax(-1, keepdim=True), torch.maximum)
    if sinks is not None:
        per_lane = sinks.float().view(kv_heads, 1, shared).expand(-1, QUERY_TILE, -1).reshape(1, kv_heads, -1, 1)
        highest = torch.maximum(highest, per_lane)
    weights = exp_bounded(scores.sub_(highest.index_select(0, plan.item_tile)))
    weights.view(num_items, kv_heads, QUERY_TILE, shared, KEY_BLOCK).mul_(plan.visible)
    total = _in_block_order(plan, _sum_keys(weights), torch.add)
    if sinks is not None:
        total = total + exp_bounded(per_lane - highest)
    mixed = torch.bmm(weights.flatten(0, 1), value_blocks).view(num_items, kv_heads, QUERY_TILE * shared, -1)
    out = _in_block_order(plan, mixed, torch.add).div_(total)
    out = out.view(num_tiles, kv_heads, QUERY_TILE, shared, -1).transpose(1, 2)
    return out.reshape(num_tiles * QUERY_TILE, plan.num_heads, -1).index_select(0, plan.row_lane)
