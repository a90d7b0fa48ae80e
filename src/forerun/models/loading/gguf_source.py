"""GGUF tensors under Hugging Face names, with llama's q and k rows put back in their order."""

from __future__ import annotations

import gguf
import numpy as np
import torch
from torch import Tensor

from forerun.models.families.family import Family
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.weights import WeightSource, mismatch
from forerun.models.native.stored_blocks import FORMATS, StoredBlocks

# Divisors of the rotary frequencies: part of the configuration, not a weight.
ROTARY_FACTORS = "rope_freqs.weight"


class GGUFSource(WeightSource):
    """Names come from the ``gguf`` library's own table for the architecture."""

    def __init__(self, file: GGUFFile, family: Family, wanted: frozenset[str], heads: dict[str, int]) -> None:
        """``wanted`` are the decoder's names; ``heads`` maps q_proj and k_proj to their number of heads."""
        self._file = file
        self._heads = heads if family.has_interleaved_gguf_rows else {}
        (architecture,) = (kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == family.gguf_architecture)
        table = gguf.get_tensor_name_map(architecture, int(file.require(f"{file.architecture}.block_count")))
        stored = {name: table.get_name(name, try_suffixes=(".weight", ".bias")) for name in wanted}
        self._stored = {name: place for name, place in stored.items() if place in file.tensor_names}
        self._surplus = file.tensor_names - set(self._stored.values()) - {ROTARY_FACTORS}

    @property
    def label(self) -> str:
        """See ``WeightSource``."""
        return str(self._file.path)

    @property
    def names(self) -> frozenset[str]:
        """See ``WeightSource``; tensors without a place keep the name that the file gives them."""
        return frozenset(self._stored) | self._surplus

    def read(self, name: str) -> Tensor:
        """See ``WeightSource``."""
        tensor = self._file.read(self._stored[name])
        num_heads = self._num_interleaved_heads(name)
        return tensor if num_heads is None else _halves_from_pairs(tensor, num_heads)

    def blocks(self, name: str) -> StoredBlocks | None:
        """A matrix as the file holds it; None where its type isn't one that the kernels multiply with."""
        kind, rows = self._file.stored(self._stored[name])
        if kind.value not in FORMATS:
            return None
        num_heads = self._num_interleaved_heads(name)
        if num_heads is not None:
            rows = np.ascontiguousarray(rows.reshape(num_heads, -1, 2, rows.shape[1]).swapaxes(1, 2)).reshape(
                rows.shape
            )
        return StoredBlocks(kind.value, self._file.shape(self._stored[name])[-1], rows)

    def _num_interleaved_heads(self, name: str) -> int | None:
        """Raises ForerunError where the rows aren't pairs of so many heads."""
        count = next((count for projection, count in self._heads.items() if f".{projection}." in name), None)
        shape = self._file.shape(self._stored[name])
        if count is not None and shape[0] % (2 * count):
            raise mismatch(self, f"{name} of shape {list(shape)} for {count} heads")
        return count


def _halves_from_pairs(tensor: Tensor, num_heads: int) -> Tensor:
    """Rows of each head from (0, w/2, 1, w/2 + 1, ...), as llama's GGUF files hold them, to 0, 1, 2, ..."""
    pairs = tensor.reshape(num_heads, -1, 2, *tensor.shape[1:])
    return torch.transpose(pairs, 1, 2).reshape(tensor.shape)
