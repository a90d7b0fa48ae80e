"""The attention function that the library calls back: keys and values into the pool, then ``attend`` by groups."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from forerun.errors import ForerunError
from forerun.models.adapter.tile_pass import tile_in_flight
from forerun.models.attention import attend

NAME = "forerun"

# Arguments that say nothing about which keys a row sees or how they are weighed: rotation is done by then, the output
# of weights is never asked for, and the rest serves kernels that forerun does not use.
_WITHOUT_EFFECT = frozenset({"position_ids", "position_embeddings", "use_cache", "cache_position", "layer_idx"})


def check_arguments(module: nn.Module, arguments: dict[str, Any]) -> None:
    """Refuses attention arguments that would change the result and are not implemented; none is ignored."""
    for name, value in arguments.items():
        if name in _WITHOUT_EFFECT or value is None or value is False:
            continue
        if (name == "dropout" and value == 0) or (name == "is_causal" and value is True):
            continue
        raise ForerunError(
            "attention with scaling, sliding window, soft cap and sinks only",
            f"{type(module).__name__} that passes {name!r}",
            "choose another target",
        )


def sinks_of(arguments: dict[str, Any]) -> Tensor | None:
    """Takes the sink logits [heads] out of the arguments, under either of the library's names."""
    for name in ("s_aux", "sinks"):
        value = arguments.pop(name, None)
        if value is not None:
            assert isinstance(value, Tensor)
            return value.reshape(-1)
    return None


def pool_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """Attention of a tile over the pool: query [1, heads, rows, width] -> [1, rows, heads, value width].

    The pass's groups are the mask, so the library's own is never built; the window is the one its mask would have had.
    """
    tile = tile_in_flight()
    if tile is None:
        raise ForerunError(
            "a pass of a forerun target", "the adapted model called on its own", "load a second copy for other uses"
        )
    sinks = sinks_of(arguments)
    check_arguments(module, arguments)
    layer = tile.next_layer()
    rows = slice(0, tile.num_rows)
    pool = tile.store.layer(layer.pool)
    if layer.writes:
        pool.write(tile.slots, key[0, :, rows].transpose(0, 1), value[0, :, rows].transpose(0, 1))
    plan = tile.attention_plan(query.shape[1], layer.num_kv_heads, layer.window)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    seen = attend(query[0, :, rows].transpose(0, 1), pool, plan, scale=scale, softcap=softcap, sinks=sinks)
    out = torch.zeros(1, query.shape[2], query.shape[1], layer.value_width, dtype=query.dtype, device=query.device)
    out[0, rows] = seen.to(query.dtype)
    return out, None


AttentionInterface.register(NAME, pool_attention)
