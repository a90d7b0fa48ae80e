"""Keys, values and recurrent states of a target, addressed by pool slot and by owner."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """State of one owner's recurrent layers after ``num_tokens`` tokens: a value, never written in place."""

    num_tokens: int
    tensors: tuple[Tensor, ...]


@dataclass(slots=True)
class KVStore:
    """Per pool layer keys and values [slots, kv heads, head width]; per owner the recurrent state at its border.

    Layers that share keys and values point to one pool layer: the target keeps the layer-to-pool map.
    """

    keys: list[Tensor]
    values: list[Tensor]
    states: dict[int, RecurrentState] = field(default_factory=dict)

    @property
    def num_slots(self) -> int:
        """Positions that fit, over all sequences."""
        return self.keys[0].shape[0] if self.keys else 0

    def move(self, source: Tensor, destination: Tensor) -> None:
        """Copies slots ``source`` to ``destination`` (int64 [n] each) in every layer; the two may overlap."""
        for layer in (*self.keys, *self.values):
            layer[destination] = layer[source].clone()
