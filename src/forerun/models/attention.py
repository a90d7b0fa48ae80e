"""Attention over pool slots whose bits depend on a row's own keys alone, not on its neighbours.

A row's blocks of keys (see ``attention_plan``) are added in order; a block that it can't see adds exact zeros. See
docs/contract.md, "same bytes".
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from forerun.models.attention_plan import KEY_BLOCK, QUERY_TILE, AttentionPlan, PlanPart
from forerun.models.exact_ops import exp_bounded
from forerun.models.kv_layer import KVLayer
from forerun.models.tiled_linear import OUTPUT_BLOCK


def _sum_keys(weights: Tensor) -> Tensor:
    """Sum over the last axis (KEY_BLOCK wide) by halving: one fixed order, unlike ``torch.sum``."""
    while weights.shape[-1] > 1:
        half = weights.shape[-1] // 2
        weights = weights[..., :half] + weights[..., half:]
    return weights


def _in_block_order(part: PlanPart, items: Tensor, combine: Callable[..., Tensor]) -> Tensor:
    """Folds the items of each tile, [W, ...] -> [T, ...], block 0 first."""
    first, *later = torch.split(items, list(part.counts))
    folded = first.clone()
    for block in later:
        first_tiles = folded if len(block) == len(folded) else folded[: len(block)]
        combine(first_tiles, block, out=first_tiles)
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

    The rows' own keys and values must be written already. ``softcap`` bounds scores by c·tanh(s/c) before the mask;
    ``sinks`` [heads] are logits that take weight and give no value.
    Products and sums are fp32 whatever the layer's number type.
    """
    scaled = queries.float() * scale
    lanes = [_attend_part(scaled, layer, plan, part, softcap, sinks) for part in plan.parts]
    return (lanes[0] if len(lanes) == 1 else torch.cat(lanes)).index_select(0, plan.row_lane)


def _attend_part(
    queries: Tensor, layer: KVLayer, plan: AttentionPlan, part: PlanPart, softcap: float | None, sinks: Tensor | None
) -> Tensor:
    """The lanes of one part, fp32 [T * QUERY_TILE, heads, value width]; ``queries`` are scaled already."""
    kv_heads, shared = plan.num_kv_heads, plan.num_shared
    num_tiles, num_items = part.counts[0], len(part.item_tile)
    tiled = queries.index_select(0, part.tile_rows).view(num_tiles, QUERY_TILE, kv_heads, shared, -1)
    tiled = tiled.transpose(1, 2).reshape(num_tiles, kv_heads, QUERY_TILE * shared, -1)

    key_blocks = layer.gather_keys(part.key_index).view(num_items * kv_heads, KEY_BLOCK, -1)
    scores = torch.bmm(tiled.index_select(0, part.item_tile).flatten(0, 1), key_blocks.transpose(1, 2))
    del key_blocks
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.view(num_items, kv_heads, QUERY_TILE, shared, KEY_BLOCK).add_(part.mask)
    scores = scores.view(num_items, kv_heads, QUERY_TILE * shared, KEY_BLOCK)

    highest = _in_block_order(part, scores.amax(-1, keepdim=True), torch.maximum)
    if sinks is not None:
        per_lane = sinks.float().view(kv_heads, 1, shared).expand(-1, QUERY_TILE, -1).reshape(1, kv_heads, -1, 1)
        highest = torch.maximum(highest, per_lane)
    weights = exp_bounded(scores.sub_(highest.index_select(0, part.item_tile)))
    weights.view(num_items, kv_heads, QUERY_TILE, shared, KEY_BLOCK).mul_(part.visible)
    total = _in_block_order(part, _sum_keys(weights), torch.add)
    if sinks is not None:
        total = total + exp_bounded(per_lane - highest)
    value_blocks = layer.gather_values(part.key_index).view(num_items * kv_heads, KEY_BLOCK, -1)
    width = value_blocks.shape[-1]
    if queries.device.type == "cpu" and width % OUTPUT_BLOCK:
        value_blocks = F.pad(value_blocks, (0, -width % OUTPUT_BLOCK))
    mixed = torch.bmm(weights.flatten(0, 1), value_blocks)[..., :width]
    mixed = mixed.view(num_items, kv_heads, QUERY_TILE * shared, width)
    out = _in_block_order(part, mixed, torch.add).div_(total)
    out = out.view(num_tiles, kv_heads, QUERY_TILE, shared, -1).transpose(1, 2)
    return out.reshape(num_tiles * QUERY_TILE, plan.num_heads, -1)
