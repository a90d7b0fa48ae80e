"""Weights on their way into the native kernels' panels, matrices as blocks where they have them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from forerun.models.arithmetic.linear import Linear
from forerun.models.decoder import Decoder
from forerun.models.decoder_layer import DecoderLayer, RMSNorm, unset
from forerun.models.loading.weights import WeightSource, check_names, fill_slot, mismatch
from forerun.models.native.block_linear import BlockLinear
from forerun.models.native.kernels import Kernels
from forerun.models.native.native_weights import NativeLayer, NativeWeights, norms_of
from forerun.models.native.packed_linear import PackedLinear
from forerun.models.native.stored_blocks import Arrangement, StoredBlocks

_CPU = torch.device("cpu")


class BlockWeights(ABC):
    """Reads a decoder's weights. Norms and biases are fp32.

    Matrices without blocks, and those that would share a panel with another type, are packed in ``number_type``;
    ``num_plain`` counts them.
    """

    def __init__(self, decoder: Decoder, source: WeightSource, kernels: Kernels, number_type: torch.dtype) -> None:
        """``decoder`` lies on the meta device: it has names and shapes, and no matrix.

        Raises ForerunError for missing or surplus tensors.
        """
        _make_room_for_vectors(decoder)
        self._decoder = decoder
        self._kernels = kernels
        self._number_type = number_type
        self._source = source
        self._slots = decoder.weight_slots()
        self.num_plain = 0
        check_names(self._slots.keys(), source)

    @abstractmethod
    def blocks(self, names: Sequence[str]) -> list[StoredBlocks] | None:
        """These matrices, which will lie in one, as blocks; None where one of them has to stay plain."""

    def read(self) -> NativeWeights:
        """Everything, layers side by side on as many threads as torch has.

        Raises ForerunError for wrong shapes, NaN and infinity.
        """
        decoder, config = self._decoder, self._decoder.config
        for name, slot in self._slots.items():
            if slot.device == _CPU:
                fill_slot(name, slot, self._source)
        blocks = [block for block in decoder.blocks if isinstance(block, DecoderLayer)]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            embedding_there = pool.submit(self._below_each_other, ["model.embed_tokens.weight"], None)
            layers = tuple(pool.map(self._layer, range(len(blocks)), blocks))
            embedding = embedding_there.result()
        head = embedding if config.is_head_tied else self._below_each_other(["lm_head.weight"], None)
        norm = decoder.final_norm.weight.data
        return NativeWeights(layers, norm, head, embedding, decoder.embedding_scale)

    def _layer(self, index: int, block: DecoderLayer) -> NativeLayer:
        attention, mlp = f"model.layers.{index}.self_attn", f"model.layers.{index}.mlp"
        return NativeLayer(
            self._below_each_other([f"{attention}.{part}_proj.weight" for part in "qkv"], block.qkv),
            self._below_each_other([f"{attention}.o_proj.weight"], block.output),
            self._in_turns([f"{mlp}.gate_proj.weight", f"{mlp}.up_proj.weight"], block.gate_up),
            self._below_each_other([f"{mlp}.down_proj.weight"], block.down),
            norms_of(block),
        )

    def _below_each_other(self, names: Sequence[str], linear: Linear | None) -> PackedLinear:
        bias = None if linear is None or linear.bias is None else linear.bias.data
        parts = self.blocks(names)
        arrangement = None if parts is None else Arrangement.below_each_other(parts)
        if parts is None or arrangement is None or arrangement.panel_formats is None:
            whole = torch.cat(self._plain(names))
            return PackedLinear(self._kernels, [whole], [bias], self._number_type)
        return self._block_linear(names, parts, arrangement, bias)

    def _in_turns(self, names: Sequence[str], linear: Linear) -> PackedLinear:
        biases = [None] * len(names) if linear.bias is None else list(linear.bias.data.chunk(len(names)))
        parts = self.blocks(names)
        arrangement = None if parts is None else Arrangement.in_turns(parts)
        if parts is None or arrangement is None or arrangement.panel_formats is None:
            return PackedLinear(self._kernels, self._plain(names), biases, self._number_type)
        return self._block_linear(names, parts, arrangement, PackedLinear.joined(biases))

    def _plain(self, names: Sequence[str]) -> list[Tensor]:
        self.num_plain += len(names)
        return [self._read(name) for name in names]

    def _read(self, name: str) -> Tensor:
        """One matrix in fp32 [out, in]."""
        tensor = torch.empty(self._slots[name].shape)
        fill_slot(name, tensor, self._source)
        return tensor

    def _block_linear(
        self, names: Sequence[str], parts: Sequence[StoredBlocks], arrangement: Arrangement, bias: Tensor | None
    ) -> BlockLinear:
        try:
            return BlockLinear(self._kernels, parts, arrangement, bias)
        except ValueError as error:
            raise mismatch(self._source, f"{error} in {' or '.join(names)}") from error


def _make_room_for_vectors(decoder: Decoder) -> None:
    """Norms and biases of a decoder on the meta device move to the CPU, unset."""
    for module in decoder.modules():
        if isinstance(module, RMSNorm):
            module.weight = _unset_like(module.weight)
        elif isinstance(module, Linear) and module.bias is not None:
            module.bias = _unset_like(module.bias)


def _unset_like(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(unset(*tensor.shape, dtype=torch.float32, device=_CPU), requires_grad=False)
