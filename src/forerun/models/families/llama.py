"""Llama (also SmolLM2, TinyLlama and others that name this class)."""

from __future__ import annotations

from typing import Any

from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.families.family import Family, dense_config, one_rotary


def _decoder_config(config: Any) -> DecoderConfig:
    layers = [LayerConfig(None, one_rotary(config))] * config.num_hidden_layers
    return dense_config(
        "llama",
        config,
        layers,
        activation=config.hidden_act,
        has_qkv_bias=config.attention_bias,
        has_output_bias=config.attention_bias,
        has_mlp_bias=config.mlp_bias,
    )


LLAMA = Family(
    "llama",
    "llama",
    ("LlamaForCausalLM",),
    _decoder_config,
    gguf_architecture="llama",
    has_interleaved_gguf_rows=True,
)
