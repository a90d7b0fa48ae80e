"""Qwen2 and Qwen2.5: a bias on q, k and v; some layers may slide."""

from __future__ import annotations

from typing import Any

from forerun.models.decoder_config import DecoderConfig
from forerun.models.families.family import Family, dense_config, layers_by_type


def _decoder_config(config: Any) -> DecoderConfig:
    return dense_config("qwen2", config, layers_by_type(config), activation=config.hidden_act, has_qkv_bias=True)


QWEN2 = Family("qwen2", "qwen2", ("Qwen2ForCausalLM",), _decoder_config, gguf_architecture="qwen2")
