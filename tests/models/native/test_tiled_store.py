"""The kernels' pool against the plain one: what was written is read back, moves and sizes agree, and C agrees too."""

from __future__ import annotations

import pytest
import torch

from forerun.models.kv_store import KVStore
from forerun.models.native.kernels import Kernels
from forerun.models.native.native_decoder import on_best_kernels
from forerun.models.native.tiled_store import TiledStore
from support.passes import Chunk, batch_of
from support.tiny_decoder import tiny_decoder

DTYPES = [torch.float32, torch.bfloat16, torch.int8]
HEADS, SLOTS = 3, 40


def both(head_dim: int, dtype: torch.dtype) -> tuple[TiledStore, KVStore]:
    """A tiled and a plain store of two layers that were written alike, all slots but the last."""
    stores = (
        TiledStore.of(2, HEADS, head_dim, SLOTS, dtype),
        KVStore.zeros([(HEADS, head_dim, head_dim)] * 2, SLOTS, dtype),
    )
    slots = torch.randperm(SLOTS - 1)
    for layer in range(2):
        keys, values = torch.randn(2, len(slots), HEADS, head_dim)
        for store in stores:
            store.write(layer, slots, keys, values)
    return stores


def assert_equal(tiled: TiledStore, plain: KVStore) -> None:
    for layer in range(2):
        found, wanted, slots = tiled.layer(layer), plain.layer(layer), torch.arange(SLOTS)
        assert torch.equal(found.read_keys(slots), wanted.read_keys(slots))
        assert torch.equal(found.read_values(slots), wanted.read_values(slots))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [7, 16, 40])
def test_what_was_written_is_read_and_moves_like_in_a_plain_store(head_dim: int, dtype: torch.dtype) -> None:
    tiled, plain = both(head_dim, dtype)
    assert_equal(tiled, plain)
    source, destination = torch.tensor([0, 1, 2, 33, 17]), torch.tensor([2, 3, 16, 4, 31])  # overlapping
    tiled.move(source, destination)
    plain.move(source, destination)
    assert_equal(tiled, plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_slot_is_counted_with_its_padding(dtype: torch.dtype) -> None:
    store = TiledStore.of(2, HEADS, 7, SLOTS, dtype)
    pair = 1 if dtype is torch.float32 else 2
    assert store.num_slots == 48
    scales = 8 if dtype is torch.int8 else 0
    assert store.bytes_per_slot == 2 * HEADS * ((7 + 7 % pair + 16) * dtype.itemsize + scales)
    assert TiledStore.of(2, HEADS, 7, 0, dtype).bytes_per_slot == store.bytes_per_slot
    tensors = (*store.keys, *store.values, *store.key_scales, *store.value_scales)
    assert sum(tensor.nbytes for tensor in tensors) == store.num_slots * store.bytes_per_slot


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernels_store_what_the_store_reads(kernels: Kernels, dtype: torch.dtype) -> None:
    """First layer, whose keys and values no attention came before, against the same decoder's on torch."""
    plain = tiny_decoder(2)
    native = on_best_kernels(tiny_decoder(2), kernels)
    batch = batch_of([Chunk(list(range(1, 21)), 0, torch.randperm(60)[:20])])
    stores = plain.new_store(64, dtype), native.new_store(64, dtype)
    for target, store in zip((plain, native), stores, strict=True):
        target.forward(batch, store)
    wanted, found = (store.layer(0) for store in stores)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.int8: 3e-2}[dtype]
    for read in ("read_keys", "read_values"):
        here, there = (getattr(layer, read)(batch.slots).float() for layer in (found, wanted))
        torch.testing.assert_close(here, there, rtol=tolerance, atol=tolerance)
