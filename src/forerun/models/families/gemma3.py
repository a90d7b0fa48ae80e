"""Gemma 3 text models: sliding and full layers with frequencies of their own, four norms a block, scaled embedding."""

from __future__ import annotations

from typing import Any

from forerun.errors import ForerunError
from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.families.family import Family, dense_config, head_width
from forerun.models.rotary import Rotary


def _decoder_config(config: Any) -> DecoderConfig:
    if getattr(config, "use_bidirectional_attention", False):
        raise ForerunError(
            "a causal gemma3 model", "use_bidirectional_attention", "use a checkpoint made for text generation"
        )
    rotaries = {
        kind: Rotary.from_parameters(parameters, head_width(config), config.max_position_embeddings)
        for kind, parameters in config.rope_parameters.items()
    }
    windows = {"sliding_attention": config.sliding_window, "full_attention": None}
    return dense_config(
        "gemma3",
        config,
        [LayerConfig(windows[kind], rotaries[kind]) for kind in config.layer_types],
        activation=config.hidden_activation,
        attention_scale=config.query_pre_attn_scalar**-0.5,
        has_qk_norm=True,
        has_qkv_bias=config.attention_bias,
        has_output_bias=config.attention_bias,
        has_sandwich_norms=True,
        embedding_scale=config.hidden_size**0.5,
        attention_softcap=config.attn_logit_softcapping,
        final_softcap=config.final_logit_softcapping,
    )


GEMMA3 = Family(
    "gemma3",
    "gemma3_text",
    ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
    _decoder_config,
    gguf_architecture="gemma3",
    norm_offset=1.0,
)
