"""Small random decoders, and a target's first layers as a draft model of itself."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from forerun.models.decoder import Decoder
from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.rotary import Rotary


def tiny_decoder(num_layers: int = 3, *, vocab_size: int = 31, seed: int = 0, max_context: int = 512) -> Decoder:
    """A llama-like decoder of random fp32 weights whose logits are spread enough to have clear favourites."""
    head_dim, num_heads = 8, 4
    rotary = Rotary.from_parameters({"rope_type": "default", "rope_theta": 10_000.0}, head_dim, max_context)
    config = DecoderConfig(
        family="llama",
        vocab_size=vocab_size,
        hidden_size=num_heads * head_dim,
        intermediate_size=48,
        num_heads=num_heads,
        num_kv_heads=2,
        head_dim=head_dim,
        max_context=max_context,
        norm_eps=1e-5,
        layers=(LayerConfig(None, rotary),) * num_layers,
        attention_scale=head_dim**-0.5,
        activation="silu",
        is_head_tied=False,
    )
    decoder = Decoder(config, name=f"tiny-{num_layers}", eos_token_ids=(0,))
    generator = torch.Generator().manual_seed(seed)
    for name, slot in decoder.weight_slots().items():
        if name.endswith("norm.weight"):
            slot.fill_(1.0)
        else:
            slot.copy_(torch.randn(slot.shape, generator=generator) * 0.3)
    return decoder


def truncated(target: Decoder, num_layers: int) -> Decoder:
    """The first ``num_layers`` blocks of ``target`` under its own final norm and head; the weights are shared."""
    config = dataclasses.replace(target.config, layers=target.config.layers[:num_layers])
    shallow = Decoder(
        config,
        name=f"{target.traits.name}, first {num_layers} layers",
        dtype=target.dtype,
        device=target.device,
        eos_token_ids=target.traits.eos_token_ids,
    )
    shallow.blocks = nn.ModuleList(list(target.blocks)[:num_layers])
    shallow.embedding, shallow.lm_head, shallow.final_norm = target.embedding, target.lm_head, target.final_norm
    return shallow
