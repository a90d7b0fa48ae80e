"""What a native decoder computes with: packed linears, fp32 norms, a way to look tokens up."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from forerun.models.arithmetic.linear import Linear
from forerun.models.decoder import Decoder
from forerun.models.decoder_layer import DecoderLayer, RMSNorm
from forerun.models.native.kernels import Kernels
from forerun.models.native.packed_linear import PackedLinear


@dataclass(frozen=True, slots=True)
class NativeLayer:
    """One block. ``norms`` are fp32 by their names in ``DecoderLayer.norms``."""

    qkv: PackedLinear
    output: PackedLinear
    gate_up: PackedLinear
    down: PackedLinear
    norms: dict[str, Tensor]

    @property
    def weight_bytes(self) -> int:
        """Memory of linears and norms."""
        linears = (self.qkv, self.output, self.gate_up, self.down)
        return sum(linear.weight_bytes for linear in linears) + sum(norm.nbytes for norm in self.norms.values())


@dataclass(frozen=True, slots=True)
class NativeWeights:
    """All weights of a decoder. ``embedding`` is the head itself where the two are tied."""

    layers: tuple[NativeLayer, ...]
    final_norm: Tensor
    head: PackedLinear
    embedding: PackedLinear | Tensor
    embedding_scale: float

    @property
    def weight_bytes(self) -> int:
        """Memory of everything, a tied embedding once."""
        layers = sum(layer.weight_bytes for layer in self.layers)
        embedding = self.embedding
        own = embedding.nbytes if isinstance(embedding, Tensor) else embedding.weight_bytes
        return layers + self.final_norm.nbytes + self.head.weight_bytes + (0 if embedding is self.head else own)

    def embedding_rows(self, ids: Tensor) -> Tensor:
        """Rows of token ids, fp32 [n, hidden], before any scaling."""
        embedding = self.embedding
        return embedding[ids].float() if isinstance(embedding, Tensor) else embedding.rows(ids)


def take_weights(decoder: Decoder, kernels: Kernels) -> NativeWeights:
    """The weights of a filled decoder, in its number type. They leave it layer by layer, so that none exists twice."""
    head = _packed(decoder.lm_head, kernels, decoder.dtype)
    layers = tuple(
        NativeLayer(
            _packed(block.qkv, kernels, decoder.dtype),
            _packed(block.output, kernels, decoder.dtype),
            _packed(block.gate_up, kernels, decoder.dtype, num_parts=2),
            _packed(block.down, kernels, decoder.dtype),
            norms_of(block),
        )
        for block in decoder.blocks
        if isinstance(block, DecoderLayer)
    )
    embedding = head if decoder.config.is_head_tied else decoder.embedding.data
    return NativeWeights(layers, decoder.final_norm.weight.data, head, embedding, decoder.embedding_scale)


def norms_of(block: DecoderLayer) -> dict[str, Tensor]:
    """The block's norm weights by name."""
    return {name: norm.weight.data for name, norm in block.norms.items() if isinstance(norm, RMSNorm)}


def _packed(linear: Linear, kernels: Kernels, dtype: torch.dtype, num_parts: int = 1) -> PackedLinear:
    """One packed matrix of a linear whose outputs are ``num_parts`` equal parts; the linear gives its weight up."""
    parts = linear.weight.data.chunk(num_parts)
    biases = [None] * num_parts if linear.bias is None else list(linear.bias.data.chunk(num_parts))
    packed = PackedLinear(kernels, parts, biases, dtype)
    linear.give_up_weight()
    return packed
