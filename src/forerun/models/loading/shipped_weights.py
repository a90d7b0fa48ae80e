"""Weights of a GGUF file as shipped: its blocks go into the kernels' panels and are never dequantised."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from forerun.models.decoder import Decoder
from forerun.models.loading.block_weights import BlockWeights
from forerun.models.loading.gguf_source import GGUFSource
from forerun.models.loading.weights import wrong_shape
from forerun.models.native.kernels import Kernels
from forerun.models.native.stored_blocks import StoredBlocks


class ShippedWeights(BlockWeights):
    """Matrices of a type without kernels are dequantised to fp32: the same numbers in more bytes."""

    def __init__(self, decoder: Decoder, source: GGUFSource, kernels: Kernels) -> None:
        super().__init__(decoder, source, kernels, torch.float32)
        self._file = source

    def blocks(self, names: Sequence[str]) -> list[StoredBlocks] | None:
        """See ``BlockWeights``. Raises ForerunError for a wrong shape."""
        parts: list[StoredBlocks] = []
        for name in names:
            if (part := self._file.blocks(name)) is None:
                return None
            if (found := (part.num_outputs, part.num_inputs)) != self._slots[name].shape:
                raise wrong_shape(self._file, name, found, self._slots[name].shape)
            parts.append(part)
        return parts
