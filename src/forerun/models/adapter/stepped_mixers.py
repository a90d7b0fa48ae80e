"""Recurrent mixers inside a model's blocks, evaluated one token at a time on the owner's own state.

A chunked rule and a single step differ in bits, and a chunk of several owners would mix them. One token at a time, a
row's bits depend on its history alone. The library's own code does the step; only the loop around it is ours.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn
from transformers import DynamicCache

from forerun.models.adapter.tile_pass import tile_in_flight

# Mixers read in transformers 5.24: state only in the cache's convolution and recurrent states, one token at a time.
KNOWN_MIXERS = frozenset(
    {
        "GraniteMoeHybridMambaLayer",
        "Lfm2MoeShortConv",
        "Lfm2ShortConv",
        "OlmoHybridGatedDeltaNet",
        "Qwen3NextGatedDeltaNet",
        "Qwen3_5GatedDeltaNet",
        "Qwen3_5MoeGatedDeltaNet",
    }
)


def find_mixers(blocks: nn.ModuleList) -> list[Any]:
    """The known mixers of a model, in the order of their layers."""
    return [module for block in blocks for module in block.modules() if type(module).__name__ in KNOWN_MIXERS]


def step_by_token(mixer: Any) -> None:
    """Replaces a mixer's forward by a loop over the rows of the tile in flight."""
    original = mixer.forward
    names = inspect.signature(original).parameters
    cache_name = next(name for name in ("cache", "past_key_values", "cache_params") if name in names)

    def one_token(hidden: Tensor, cache: DynamicCache) -> Tensor:
        out = original(hidden_states=hidden, **{cache_name: cache})
        assert isinstance(out, Tensor)
        return out

    def by_token(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        tile = tile_in_flight()
        assert tile is not None, "a mixer is stepped inside a pass only"
        return tile.recurrent.step(mixer.layer_idx, hidden_states, tile.owners, one_token)

    mixer.forward = by_token
