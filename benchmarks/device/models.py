"""The models that are checked and timed: random ones of several families, and one that a person has."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch

from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import Arithmetic
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.loading.load_target import load_target
from forerun.models.rotary import Rotary
from forerun.models.tokenizer import Tokenizer
from forerun.workloads.catalog import load_workload


class Model(ABC):
    """Something that can be had on any device, in any number type, under either arithmetic, with the same weights."""

    name: str

    @abstractmethod
    def on(self, device: torch.device, dtype: torch.dtype, arithmetic: Arithmetic) -> Target:
        """Loaded or made anew."""

    @abstractmethod
    def tokens(self, count: int) -> list[int]:
        """A text of ``count`` tokens, or as long as there is."""


class RandomModel(Model):
    """Weights from a fixed seed, drawn on the CPU so that they are the same wherever they go."""

    def __init__(self, name: str, config: DecoderConfig) -> None:
        self.name = name
        self.config = config

    def on(self, device: torch.device, dtype: torch.dtype, arithmetic: Arithmetic) -> Decoder:
        """See ``Model``."""
        decoder = Decoder(self.config, name=self.name, dtype=dtype, device=device, arithmetic=arithmetic)
        generator = torch.Generator().manual_seed(3)
        for name, slot in decoder.weight_slots().items():
            noise = torch.randn(slot.shape, generator=generator)
            # Sums of products keep the size of what goes in; the head's are larger, so that there are favourites.
            slot.copy_(1 + noise * 0.1 if name.endswith("norm.weight") else noise * 1.5 * slot.shape[-1] ** -0.5)
        decoder.pack()
        return decoder

    def tokens(self, count: int) -> list[int]:
        """See ``Model``. A phrase comes back now and then, so that retrieval has something to find."""
        generator = torch.Generator().manual_seed(4)
        phrase = torch.randint(self.config.vocab_size, (37,), generator=generator).tolist()
        return (phrase * (count // len(phrase) + 1))[:count]


class StoredModel(Model):
    """A model directory, a GGUF file or a catalog name."""

    def __init__(self, source: str) -> None:
        self.name = source
        self._tokenizer: Tokenizer | None = None

    def on(self, device: torch.device, dtype: torch.dtype, arithmetic: Arithmetic) -> Target:
        """See ``Model``. Raises ForerunError for what can't be loaded, and for a model of the adapter."""
        name = str(dtype).removeprefix("torch.")
        loaded = load_target(self.name, dtype=name, device=str(device), exact=arithmetic.is_bit_exact)
        self._tokenizer = loaded.tokenizer
        if device.type != "cpu" and not isinstance(loaded.target, Decoder):
            raise ForerunError("a model of the lean decoder", f"{self.name}, which isn't", "choose another --model")
        return loaded.target

    def tokens(self, count: int) -> list[int]:
        """See ``Model``: the shipped code_edit prompts. Only after it was loaded once."""
        assert self._tokenizer is not None
        text = "\n\n".join(prompt.plain_text for prompt in load_workload("code_edit").prompts)
        return list(self._tokenizer.encode(text))[:count]


def tiny_models() -> Sequence[RandomModel]:
    """One for each thing that families differ in: shared heads, windows, biases, norms, activations, caps."""
    llama = _config("llama", vocab_size=97, hidden=64, intermediate=96, heads=(4, 2, 16), num_layers=3)
    windowed = tuple(LayerConfig(13 if index % 2 else None, layer.rotary) for index, layer in enumerate(llama.layers))
    variants = {
        "llama": llama,
        "windows": dataclasses.replace(llama, family="mistral", layers=windowed),
        "biases": dataclasses.replace(llama, family="qwen2", has_qkv_bias=True, is_head_tied=False),
        "head norms": dataclasses.replace(llama, family="qwen3", has_qk_norm=True),
        "gemma": dataclasses.replace(
            llama,
            family="gemma3",
            layers=windowed,
            activation="gelu_tanh",
            has_qk_norm=True,
            has_sandwich_norms=True,
            embedding_scale=8.0,
            final_softcap=30.0,
        ),
        "capped scores": dataclasses.replace(llama, attention_softcap=20.0),
    }
    return [RandomModel(f"tiny, {name}", config) for name, config in variants.items()]


def smollm2_shaped(num_layers: int = 30) -> RandomModel:
    """The shape of SmolLM2-135M, or of its first layers: passes take as long as with its weights."""
    config = _config("llama", vocab_size=49_152, hidden=576, intermediate=1536, heads=(9, 3, 64), num_layers=num_layers)
    return RandomModel(f"random weights in SmolLM2-135M's shape, {num_layers} layers", config)


def _config(
    family: Literal["llama"],
    *,
    vocab_size: int,
    hidden: int,
    intermediate: int,
    heads: tuple[int, int, int],
    num_layers: int,
) -> DecoderConfig:
    num_heads, num_kv_heads, width = heads
    rotary = Rotary.from_parameters({"rope_type": "default", "rope_theta": 10_000.0}, width, 8192)
    return DecoderConfig(
        family=family,
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=width,
        max_context=8192,
        norm_eps=1e-5,
        layers=(LayerConfig(None, rotary),) * num_layers,
        attention_scale=width**-0.5,
        activation="silu",
        is_head_tied=True,
    )
