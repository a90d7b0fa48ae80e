"""What the lean decoder must know of a checkpoint, independent of where it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from forerun.models.rotary import Rotary


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """What may differ between layers: the window (None: all of the context) and the rotary frequencies."""

    window: int | None
    rotary: Rotary


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """One dense decoder. ``has_sandwich_norms``: a norm after attention and after the MLP too (Gemma 3)."""

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_context: int
    norm_eps: float
    layers: tuple[LayerConfig, ...]
    attention_scale: float
    activation: Literal["silu", "gelu_tanh"]
    is_head_tied: bool
    has_qkv_bias: bool = False
    has_output_bias: bool = False
    has_mlp_bias: bool = False
    has_qk_norm: bool = False
    has_sandwich_norms: bool = False
    embedding_scale: float = 1.0
    attention_softcap: float | None = None
    final_softcap: float | None = None

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.layers)
