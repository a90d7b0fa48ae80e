"""Tiny random models whose later layers say little, so that their first layers are fair draft models of the whole."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.native.kernels import find_kernels
from support.tiny_models import BY_NAME, load_on

FADE = 0.3  # each layer adds this much of what the one before added
SHARPNESS = 1.5  # of the head: text at T = 0.8 repeats itself now and then

# Family, number type, and the native kernels where a compiler built them.
_TORCH = ["llama", "llama-bf16", "mistral_sliding", "qwen2", "qwen3", "gemma3"]
MODELS = [*_TORCH, *(f"{model}/native" for model in _TORCH if find_kernels("auto"))]


def target_named(model: str) -> Target:
    """The faded target that one of ``MODELS`` names."""
    name, _, kernels = model.partition("/")
    name, _, dtype = name.partition("-")
    return faded_target_on("auto" if kernels else "torch", name, torch.bfloat16 if dtype else torch.float32)


@cache
def faded_target(name: str, dtype: torch.dtype = torch.float32) -> Decoder:
    """The lean decoder of the tiny model ``name``, faded, through torch; built once a process."""
    target = faded_target_on("torch", name, dtype)
    assert isinstance(target, Decoder)
    return target


@cache
def faded_target_on(kernels: str, name: str, dtype: torch.dtype = torch.float32) -> Target:
    """The same, computed by ``kernels``: torch, auto or a native path."""
    model = faded_model(name)
    with TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        return load_on(kernels, Path(directory), dtype)


def faded_model(name: str, **changes: Any) -> Any:
    """The transformers model of the tiny model ``name``, faded; ``changes`` are to its shape."""
    # An untied head: under a tied one such a model says the same token for ever.
    model = BY_NAME[name].build(tie_word_embeddings=False, **changes)
    with torch.no_grad():
        for index, layer in enumerate(model.model.layers):
            for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
                linear.weight.mul_(FADE**index)
            if name.startswith("gemma"):
                for norm in (layer.post_attention_layernorm, layer.post_feedforward_layernorm):
                    _scale_offset_norm(norm, FADE**index)
        model.lm_head.weight.mul_(SHARPNESS)
    return model


def _scale_offset_norm(norm: Any, factor: float) -> None:
    """Gemma's norms multiply by 1 + weight, whatever comes in."""
    norm.weight.add_(1).mul_(factor).sub_(1)
