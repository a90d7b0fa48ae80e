"""Tiny random models of each family, as transformers makes and saves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.loading.load_directory import load_directory_target

VOCABULARY = 97
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class TinyModel:
    """A configuration by name: the model type and what differs from ``SHAPE``."""

    name: str
    model_type: str
    changes: dict[str, Any] = field(default_factory=dict)

    def build(self, **changes: Any) -> Any:
        """The transformers model, random weights from a fixed seed, biases and norms included."""
        torch.manual_seed(7)
        shape = {key: value for key, value in (SHAPE | self.changes | changes).items() if value is not None}
        config = AutoConfig.for_model(self.model_type, **shape)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                centre = 0.0 if name.endswith("bias") or self.model_type == "gemma3_text" else 1.0
                parameter.data.normal_(centre, 0.2)
        return model

    def save(self, directory: Path, **kwargs: Any) -> Any:
        """Builds and saves; returns the transformers model."""
        model = self.build()
        model.save_pretrained(directory, **kwargs)
        return model


def scaled(kind: str, **parameters: Any) -> dict[str, Any]:
    """Changes that set a rotary scaling."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **parameters}}


TINY_MODELS = [
    TinyModel("llama", "llama"),
    TinyModel("llama_biased", "llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    TinyModel(
        "llama3_rope",
        "llama",
        scaled(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    TinyModel("yarn_rope", "llama", scaled("yarn", factor=4.0, original_max_position_embeddings=64)),
    TinyModel("linear_rope", "llama", scaled("linear", factor=4.0)),
    TinyModel("mistral_sliding", "mistral", {"sliding_window": 19}),
    TinyModel("qwen2", "qwen2", {"head_dim": None, "tie_word_embeddings": False}),
    TinyModel("qwen2_tied", "qwen2", {"head_dim": None, "tie_word_embeddings": True}),
    TinyModel(
        "qwen2_sliding",
        "qwen2",
        {"head_dim": None, "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    ),
    TinyModel("qwen3", "qwen3", {"head_dim": 24}),
    TinyModel(
        "gemma3",
        "gemma3_text",
        {
            "num_hidden_layers": 4,
            "sliding_window": 13,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "query_pre_attn_scalar": 20,
            "final_logit_softcapping": 30.0,
        },
    ),
    TinyModel(
        "gemma3_linear_rope",
        "gemma3_text",
        {
            "num_key_value_heads": 1,
            "sliding_window": 5,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
]
BY_NAME = {model.name: model for model in TINY_MODELS}


def load(directory: Path, dtype: torch.dtype = torch.float32) -> Decoder:
    """The saved model as the lean decoder through torch, native kernels or not."""
    target = load_on("torch", directory, dtype)
    assert isinstance(target, Decoder)
    return target


def load_on(kernels: str, directory: Path, dtype: torch.dtype = torch.float32) -> Target:
    """The saved model, computed by ``kernels``: torch, auto or a native path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORERUN_KERNELS", kernels)
        return load_directory_target(directory, AutoConfig.from_pretrained(directory), dtype, torch.device("cpu"))


def random_tokens(count: int, seed: int = 0) -> list[int]:
    """Token ids from a fixed seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (count,), generator=generator).tolist()
