"""The tiny decoder on any device, and passes for it."""

from __future__ import annotations

import dataclasses

import torch

from forerun.models.arithmetic.arithmetic import Arithmetic
from forerun.models.base import AttentionGroup, PassInput
from forerun.models.decoder import Decoder
from forerun.models.decoder_config import LayerConfig
from support.tiny_decoder import tiny_decoder


def decoder_on(
    device: torch.device, arithmetic: Arithmetic, *, num_layers: int = 3, window: int | None = None
) -> Decoder:
    """The same weights wherever they lie; with ``window`` every second layer has it."""
    source = tiny_decoder(num_layers)
    layers = tuple(
        LayerConfig(window if index % 2 else None, layer.rotary) for index, layer in enumerate(source.config.layers)
    )
    config = dataclasses.replace(source.config, layers=layers)
    decoder = Decoder(config, name="tiny", device=device, eos_token_ids=(0,), arithmetic=arithmetic)
    for name, slot in decoder.weight_slots().items():
        slot.copy_(source.weight_slots()[name])
    return decoder


def unlike_sequences(seed: int = 0) -> PassInput:
    """Three rows behind 20 positions, one behind 5, and an anchor with two children behind 33, in 100 mixed slots."""
    places = torch.randperm(100, generator=torch.Generator().manual_seed(seed))
    chain, single, tree = places[:23], places[30:36], places[40:76]
    groups = (
        AttentionGroup((0, 1, 2), chain),
        AttentionGroup((3,), single),
        AttentionGroup((4, 5), tree[:35]),
        AttentionGroup((6,), torch.cat([tree[:34], tree[35:]])),
    )
    return PassInput(
        (torch.arange(7) + seed) % 31,
        torch.tensor([20, 21, 22, 5, 33, 34, 34]),
        torch.cat([chain[20:], single[5:], tree[33:]]),
        (0, 0, 0, 1, 2, 2, 2),
        groups,
        (0, 2, 3, 4, 5, 6),
        {0: 1, 1: 1, 2: 1},
    )
