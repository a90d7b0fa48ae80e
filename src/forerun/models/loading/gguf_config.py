"""A GGUF file's metadata as the transformers configuration that it was converted from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from transformers import AutoConfig

from forerun.errors import ForerunError
from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.families.family import Family
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.gguf_source import ROTARY_FACTORS

# llama.cpp (src/llama-model.cpp, LLM_ARCH_GEMMA3) knows the 27B model by its depth and scales by hidden / heads there.
_GEMMA3_27B_LAYERS = 62


def gguf_decoder_config(file: GGUFFile, family: Family) -> DecoderConfig:
    """Raises ForerunError where metadata is missing or names a rotary scaling that the decoder doesn't have."""
    config = family.read(gguf_transformers_config(file, family))
    return _with_rotary_factors(config, file.read(ROTARY_FACTORS)) if ROTARY_FACTORS in file.tensor_names else config


def gguf_transformers_config(file: GGUFFile, family: Family) -> Any:
    """The transformers configuration, but for divisors of rotary frequencies, which GGUF files keep as a tensor."""
    num_heads, hidden = _count(file, "attention.head_count"), _count(file, "embedding_length")
    num_layers = _count(file, "block_count")
    if num_layers != (stored := len({name.split(".")[1] for name in file.tensor_names if name.startswith("blk.")})):
        raise ForerunError(f"{stored} blocks, as {file.path} holds", f"block_count {num_layers}", "fetch it again")
    fields: dict[str, Any] = {
        "vocab_size": file.shape("token_embd.weight")[0],
        "hidden_size": hidden,
        "intermediate_size": _count(file, "feed_forward_length"),
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "num_key_value_heads": _count(file, "attention.head_count_kv", num_heads),
        "head_dim": _count(file, "attention.key_length", hidden // num_heads),
        "max_position_embeddings": _count(file, "context_length"),
        "rms_norm_eps": float(file.require(f"{file.architecture}.attention.layer_norm_rms_epsilon")),
        "tie_word_embeddings": "output.weight" not in file.tensor_names,
        "attention_bias": "blk.0.attn_q.bias" in file.tensor_names,
    }
    fields |= _gemma3(file, fields) if family.name == "gemma3" else {"rope_parameters": _rope_parameters(file)}
    try:
        return AutoConfig.for_model(family.model_type, **fields)
    except Exception as error:  # transformers checks that the numbers fit each other, with errors of its own
        raise ForerunError(f"consistent metadata in {file.path}", str(error), "convert the model again") from error


def _count(file: GGUFFile, key: str, default: int | None = None) -> int:
    """A whole number of 1 or more. Raises ForerunError for anything else, and where it is missing without a default."""
    name = f"{file.architecture}.{key}"
    value = file.require(name) if default is None else file.get(name, default)
    if not isinstance(value, int) or value < 1:
        raise ForerunError(f"a number of 1 or more as {name!r} in {file.path}", repr(value), "convert the model again")
    return value


def _rope_parameters(file: GGUFFile) -> dict[str, Any]:
    prefix = f"{file.architecture}.rope"
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": float(file.get(f"{prefix}.freq_base", 10000.0))}
    kind = file.get(f"{prefix}.scaling.type", "none")
    if kind == "none":
        return parameters
    if kind not in ("linear", "yarn"):
        raise ForerunError(
            "rotary scaling none, linear or yarn",
            f"{kind!r} in {file.path}",
            "use another model; this one's frequencies would depend on the batch",
        )
    parameters |= {"rope_type": kind, "factor": float(file.require(f"{prefix}.scaling.factor"))}
    if kind == "yarn":
        parameters["original_max_position_embeddings"] = int(file.require(f"{prefix}.scaling.original_context_length"))
    return parameters


def _gemma3(file: GGUFFile, fields: dict[str, Any]) -> dict[str, Any]:
    is_27b = fields["num_hidden_layers"] == _GEMMA3_27B_LAYERS
    scalar = fields["hidden_size"] // fields["num_attention_heads"] if is_27b else fields["head_dim"]
    local = {"rope_type": "default", "rope_theta": float(file.get("gemma3.rope.freq_base_swa", 10000.0))}
    return {
        "rope_parameters": {"full_attention": _rope_parameters(file), "sliding_attention": local},
        "query_pre_attn_scalar": scalar,
        "sliding_window": int(file.require("gemma3.attention.sliding_window")),
        "final_logit_softcapping": file.get("gemma3.final_logit_softcapping"),
    }


def _with_rotary_factors(config: DecoderConfig, factors: torch.Tensor) -> DecoderConfig:
    layers = tuple(LayerConfig(layer.window, layer.rotary.divided_by(factors)) for layer in config.layers)
    return replace(config, layers=layers)
