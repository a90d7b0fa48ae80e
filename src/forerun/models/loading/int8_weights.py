"""Weights of any checkpoint rounded to int8 while they are loaded, sensitive ones left out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from forerun.models.decoder import Decoder
from forerun.models.loading.block_weights import BlockWeights
from forerun.models.loading.weights import WeightSource
from forerun.models.native.int8_blocks import rounded_to_int8
from forerun.models.native.kernels import Kernels
from forerun.models.native.stored_blocks import BLOCK, StoredBlocks

# The head, and the embedding that is often the same matrix. docs/quantisation.md has the KL of each kind of matrix.
SENSITIVE = frozenset({"embed_tokens", "lm_head"})


class Int8Weights(BlockWeights):
    """Blocks of ``BLOCK`` int8 with a scale each. Sensitive matrices, and rows of no whole blocks, stay as they are."""

    def __init__(
        self,
        decoder: Decoder,
        source: WeightSource,
        kernels: Kernels,
        number_type: torch.dtype,
        sensitive: frozenset[str] = SENSITIVE,
    ) -> None:
        """``sensitive`` are names of modules as they stand in the names of weights."""
        super().__init__(decoder, source, kernels, number_type)
        self._sensitive = sensitive

    def blocks(self, names: Sequence[str]) -> list[StoredBlocks] | None:
        """See ``BlockWeights``."""
        is_sensitive = any(not self._sensitive.isdisjoint(name.split(".")) for name in names)
        has_whole_blocks = all(self._slots[name].shape[1] % BLOCK == 0 for name in names)
        if is_sensitive or not has_whole_blocks:
            return None
        return [rounded_to_int8(self._read(name)) for name in names]
