"""Keys and values in the kernels' layout: tiles of 16 slots, as attention multiplies them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from forerun.models.kv_layer import KVLayer, quantise
from forerun.models.kv_store import KVStore

SLOT_TILE = 16  # slots of a tile, as in csrc/pool.h


@dataclass(slots=True)
class TiledStore(KVStore):
    """A store whose layers lie as ``csrc/pool.h`` says; bf16 and int8 numbers come in pairs, fp32 alone.

    Per layer keys [kv heads, tiles, cells, 16, pair] (a cell is a pair of neighbouring d), values [kv heads, tiles,
    16 / pair, width, pair] (width is the head's in whole 16s) and, for int8, scales [kv heads, slots].
    """

    head_dim: int = 0

    @classmethod
    def of(cls, num_layers: int, num_kv_heads: int, head_dim: int, num_slots: int, dtype: torch.dtype) -> TiledStore:
        """An empty store, in whole tiles."""
        store = cls([], [], head_dim=head_dim)
        pair = 1 if dtype is torch.float32 else 2
        num_tiles, num_cells, width = -(-num_slots // SLOT_TILE), -(-head_dim // pair), -(-head_dim // 16) * 16
        for _ in range(num_layers):
            store.keys.append(torch.zeros(num_kv_heads, num_tiles, num_cells, SLOT_TILE, pair, dtype=dtype))
            store.values.append(torch.zeros(num_kv_heads, num_tiles, SLOT_TILE // pair, width, pair, dtype=dtype))
            if dtype is torch.int8:
                store.key_scales.append(torch.zeros(num_kv_heads, num_tiles * SLOT_TILE))
                store.value_scales.append(torch.zeros(num_kv_heads, num_tiles * SLOT_TILE))
        return store

    @property
    def num_slots(self) -> int:
        """Positions that fit, over all sequences: whole tiles."""
        return self.keys[0].shape[1] * SLOT_TILE if self.keys else 0

    @property
    def bytes_per_slot(self) -> int:
        """What one position takes in all layers, scales and padding included."""
        tiles = sum(t.element_size() * t.shape[0] * t.shape[2:].numel() for t in (*self.keys, *self.values))
        return tiles // SLOT_TILE + sum(4 * len(scales) for scales in (*self.key_scales, *self.value_scales))

    def layer(self, index: int) -> KVLayer:
        """A copy of pool layer ``index`` as [slots, kv heads, width]: to look at, since attention reads the tiles."""
        keys = _keys_by_slot(self.keys[index]).flatten(0, 1).flatten(2)[..., : self.head_dim]
        values = _values_by_slot(self.values[index]).flatten(0, 2)[..., : self.head_dim]
        if not self.key_scales:
            return KVLayer(keys, values)
        return KVLayer(keys, values, self.key_scales[index].T.contiguous(), self.value_scales[index].T.contiguous())

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Stores rows (fp32 or bf16 [rows, kv heads, head_dim]) at ``slots`` (int64 [rows])."""
        if self.key_scales:
            keys, self.key_scales[layer].T[slots] = quantise(keys)
            values, self.value_scales[layer].T[slots] = quantise(values)
        tile, lane = slots // SLOT_TILE, slots % SLOT_TILE
        pair = self.keys[layer].shape[-1]
        cells = torch.nn.functional.pad(keys, (0, -self.head_dim % pair)).to(self.dtype)
        _keys_by_slot(self.keys[layer])[tile, lane] = cells.reshape(*cells.shape[:2], cells.shape[2] // pair, pair)
        _values_by_slot(self.values[layer])[tile, lane // pair, lane % pair, :, : self.head_dim] = values.to(self.dtype)

    def move(self, source: Tensor, destination: Tensor) -> None:
        """Copies slots ``source`` to ``destination`` (int64 [n] each) in every layer; the two may overlap."""
        tiles, lanes = (source // SLOT_TILE, destination // SLOT_TILE), (source % SLOT_TILE, destination % SLOT_TILE)
        for keys in self.keys:
            by_slot = _keys_by_slot(keys)
            by_slot[tiles[1], lanes[1]] = by_slot[tiles[0], lanes[0]]
        for values in self.values:
            by_slot, pair = _values_by_slot(values), values.shape[-1]
            moved = by_slot[tiles[0], lanes[0] // pair, lanes[0] % pair]
            by_slot[tiles[1], lanes[1] // pair, lanes[1] % pair] = moved
        for scales in (*self.key_scales, *self.value_scales):
            scales[:, destination] = scales[:, source]


def _keys_by_slot(keys: Tensor) -> Tensor:
    """[tiles, 16, kv heads, cells, pair], a view."""
    return keys.permute(1, 3, 0, 2, 4)


def _values_by_slot(values: Tensor) -> Tensor:
    """[tiles, 16 / pair, pair, kv heads, width], a view."""
    return values.permute(1, 2, 4, 0, 3)
