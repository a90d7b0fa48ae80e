"""Qwen3: a norm per head on q and k, head width of its own."""

from __future__ import annotations

from typing import Any

from forerun.models.decoder_config import DecoderConfig
from forerun.models.families.family import Family, dense_config, layers_by_type


def _decoder_config(config: Any) -> DecoderConfig:
    return dense_config(
        "qwen3",
        config,
        layers_by_type(config),
        activation=config.hidden_act,
        has_qk_norm=True,
        has_qkv_bias=config.attention_bias,
        has_output_bias=config.attention_bias,
    )


QWEN3 = Family("qwen3", "qwen3", ("Qwen3ForCausalLM",), _decoder_config, gguf_architecture="qwen3")
