"""Keys, values and recurrent states of a target, addressed by pool slot and by owner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from forerun.models.kv_layer import KVLayer


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """State of one owner's recurrent layers after ``num_tokens`` tokens: a value, never written in place."""

    num_tokens: int
    tensors: tuple[Tensor, ...]


@dataclass(slots=True)
class KVStore:
    """Per pool layer keys and values [slots, kv heads, head width]; per owner the recurrent state at its border.

    All layers have one number type; int8 has scales [slots, kv heads] beside keys and values, any other none. Layers
    that share keys and values point to one pool layer: the target keeps the layer-to-pool map.
    """

    keys: list[Tensor]
    values: list[Tensor]
    key_scales: list[Tensor] = field(default_factory=list)
    value_scales: list[Tensor] = field(default_factory=list)
    states: dict[int, RecurrentState] = field(default_factory=dict)

    @classmethod
    def zeros(
        cls,
        shapes: Iterable[tuple[int, int, int]],
        num_slots: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> KVStore:
        """An empty store with a layer for each (kv heads, key width, value width)."""
        store = cls([], [])
        for heads, key_width, value_width in shapes:
            store.keys.append(torch.zeros(num_slots, heads, key_width, dtype=dtype, device=device))
            store.values.append(torch.zeros(num_slots, heads, value_width, dtype=dtype, device=device))
            if dtype is torch.int8:
                store.key_scales.append(torch.zeros(num_slots, heads, device=device))
                store.value_scales.append(torch.zeros(num_slots, heads, device=device))
        return store

    @property
    def num_slots(self) -> int:
        """Positions that fit, over all sequences."""
        return self.keys[0].shape[0] if self.keys else 0

    @property
    def dtype(self) -> torch.dtype:
        """Number type of keys and values; fp32 for a target that has none."""
        return self.keys[0].dtype if self.keys else torch.float32

    @property
    def bytes_per_slot(self) -> int:
        """What one position takes in all layers, scales included. A store without slots knows it too."""
        return sum(tensor.element_size() * tensor.shape[1:].numel() for tensor in self._tensors())

    def layer(self, index: int) -> KVLayer:
        """Pool layer ``index``, as attention reads and writes it."""
        if not self.key_scales:
            return KVLayer(self.keys[index], self.values[index])
        return KVLayer(self.keys[index], self.values[index], self.key_scales[index], self.value_scales[index])

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Stores rows in pool layer ``layer``: see ``KVLayer.write``."""
        self.layer(layer).write(slots, keys, values)

    def move(self, source: Tensor, destination: Tensor) -> None:
        """Copies slots ``source`` to ``destination`` (int64 [n] each) in every layer; the two may overlap."""
        tensors = self._tensors()
        if not tensors:
            return
        source, destination = torch.stack((source, destination)).to(tensors[0].device)  # one transfer for all layers
        for tensor in tensors:
            tensor[destination] = tensor[source].clone()

    def _tensors(self) -> tuple[Tensor, ...]:
        return (*self.keys, *self.values, *self.key_scales, *self.value_scales)
