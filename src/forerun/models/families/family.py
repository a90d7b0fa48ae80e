"""What a family adds to the lean decoder: how its configuration reads and how its files differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from forerun.errors import ForerunError
from forerun.models.decoder_config import DecoderConfig, LayerConfig
from forerun.models.rotary import Rotary

# Sizes beyond these are damage: nothing could be allocated or even counted by them.
_LARGEST = {
    "vocab_size": 2**24,
    "hidden_size": 2**20,
    "intermediate_size": 2**22,
    "num_hidden_layers": 2**14,
    "num_attention_heads": 2**16,
    "num_key_value_heads": 2**16,
    "head_dim": 2**16,
    "max_position_embeddings": 2**31,
}


@dataclass(frozen=True, slots=True)
class Family:
    """One dense family.

    ``architectures`` are the classes that checkpoints name; ``decoder_config`` reads a transformers configuration.
    ``norm_offset`` is what safetensors files leave out of norm weights; ``gguf_architecture`` is empty where another
    family's GGUF name covers this one, and ``has_interleaved_gguf_rows`` says whether GGUF files hold the rows of q
    and k in rotation pairs.
    """

    name: str
    model_type: str
    architectures: tuple[str, ...]
    decoder_config: Callable[[Any], DecoderConfig]
    gguf_architecture: str = ""
    norm_offset: float = 0.0
    has_interleaved_gguf_rows: bool = False

    def read(self, config: Any) -> DecoderConfig:
        """``decoder_config``, once the sizes are such that a machine can have them; else ForerunError."""
        for name, most in _LARGEST.items():
            size = getattr(config, name, None)
            if size is not None and not 0 < size <= most:
                found = f"{size}" if abs(size) < 10**12 else f"a number of {int(math.log10(abs(size))) + 1} digits"
                raise ForerunError(f"{name} from 1 to {most}", found, "fetch config.json again")
        return self.decoder_config(config)


def dense_config(
    family: str, config: Any, layers: Sequence[LayerConfig], *, activation: str, **traits: Any
) -> DecoderConfig:
    """The fields that all families read alike from a transformers configuration; ``traits`` overrides and adds."""
    head_dim = head_width(config)
    fields: dict[str, Any] = {
        "family": family,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_heads": config.num_attention_heads,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": head_dim,
        "max_context": config.max_position_embeddings,
        "norm_eps": config.rms_norm_eps,
        "layers": tuple(layers),
        "attention_scale": head_dim**-0.5,
        "activation": _activation(family, activation),
        "is_head_tied": bool(config.tie_word_embeddings),
    }
    return DecoderConfig(**(fields | traits))


def head_width(config: Any) -> int:
    """Width of one head: stated, or the hidden size shared out."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def one_rotary(config: Any) -> Rotary:
    """Frequencies of a family that has the same ones in every layer."""
    return Rotary.from_parameters(config.rope_parameters, head_width(config), config.max_position_embeddings)


def layers_by_type(config: Any) -> list[LayerConfig]:
    """Layers of a family that marks sliding ones in ``layer_types`` and turns all alike."""
    rotary = one_rotary(config)
    return [
        LayerConfig(config.sliding_window if kind == "sliding_attention" else None, rotary)
        for kind in config.layer_types
    ]


def _activation(family: str, name: str) -> Literal["silu", "gelu_tanh"]:
    if name == "silu":
        return "silu"
    if name == "gelu_pytorch_tanh":
        return "gelu_tanh"
    raise ForerunError(
        f"activation silu or gelu_pytorch_tanh in a {family} model", repr(name), "use a checkpoint of the plain family"
    )
