"""Mistral: llama's block with one sliding window for all layers. Its GGUF files call themselves llama."""

from __future__ import annotations

from typing import Any

from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.families.family import Family, dense_config, one_rotary


def _decoder_config(config: Any) -> DecoderConfig:
    layers = [LayerConfig(config.sliding_window, one_rotary(config))] * config.num_hidden_layers
    return dense_config("mistral", config, layers, activation=config.hidden_act)


MISTRAL = Family("mistral", "mistral", ("MistralForCausalLM",), _decoder_config)
