"""The pool's number types: what comes back, in which bits, at what size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from forerun.models.kv_layer import quantise
from forerun.models.kv_store import KVStore

DTYPES = (torch.float32, torch.bfloat16, torch.int8)


def rows(count: int, heads: int, width: int, seed: int = 3) -> Tensor:
    return torch.randn(count, heads, width, generator=torch.Generator().manual_seed(seed)) * 3


def test_quantised_numbers_are_within_half_a_step() -> None:
    states = rows(40, 3, 24)
    numbers, scales = quantise(states)
    assert numbers.dtype is torch.int8 and scales.shape == (40, 3)
    assert torch.equal(scales, states.abs().amax(-1) / 127)
    assert int(numbers.abs().max()) == 127
    error = (numbers * scales[..., None] - states).abs()
    assert bool((error <= scales[..., None] * 0.5001).all())


def test_quantising_rounds_half_to_even_and_takes_bf16() -> None:
    states = torch.tensor([[[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.4]]])
    for given in (states, states.bfloat16()):
        numbers, scales = quantise(given)
        assert scales.tolist() == [[1.0]]
        assert numbers.flatten().tolist() == [127, 0, 2, 2, 0, -2, 3]


@pytest.mark.parametrize("largest", [0.0, 1e-45, 160e-45, 1e-38, 3e38])
def test_quantising_holds_at_the_ends_of_the_range(largest: float) -> None:
    states = torch.tensor([[[largest, -largest, 0.0]]])
    numbers, scales = quantise(states)
    read = numbers * scales[..., None]
    assert bool(torch.isfinite(read).all())
    assert bool(((read - states).abs() <= max(largest * 0.5, 1e-43)).all())


@pytest.mark.parametrize("strange", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_reads_back_as_nan_in_its_own_head_alone(strange: float) -> None:
    states = rows(2, 2, 4)
    states[0, 1, 2] = strange
    numbers, scales = quantise(states)
    read = numbers * scales[..., None]
    assert bool(torch.isnan(read[0, 1]).all())
    assert bool(torch.isfinite(read[0, 0]).all()) and bool(torch.isfinite(read[1]).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_have_the_same_bits_written_alone_or_together(dtype: torch.dtype) -> None:
    shapes = [(2, 12, 20), (3, 8, 8)]
    together, alone = (KVStore.zeros(shapes, 32, dtype) for _ in range(2))
    slots = torch.randperm(32, generator=torch.Generator().manual_seed(5))[:20]
    for layer, (heads, key_width, value_width) in enumerate(shapes):
        keys, values = rows(20, heads, key_width), rows(20, heads, value_width, 4)
        together.write(layer, slots, keys, values)
        for row in reversed(range(20)):
            one = slice(row, row + 1)
            alone.write(layer, slots[one], keys[one], values[one])
        index = torch.arange(32 * heads)
        for name in ("gather_keys", "gather_values"):
            read = getattr(together.layer(layer), name)(index)
            assert read.dtype is torch.float32
            assert torch.equal(read, getattr(alone.layer(layer), name)(index))
        back = together.layer(layer).gather_keys(slots * heads + 1)
        torch.testing.assert_close(back, keys[:, 1], atol=0.06, rtol=1e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_moved_slots_read_the_same(dtype: torch.dtype) -> None:
    store = KVStore.zeros([(2, 6, 6)], 8, dtype)
    keys, values = rows(4, 2, 6), rows(4, 2, 6, 9)
    store.write(0, torch.arange(4), keys, values)
    before = store.layer(0).gather_keys(torch.arange(8)), store.layer(0).gather_values(torch.arange(8))
    store.move(torch.tensor([0, 1, 2, 3]), torch.tensor([2, 3, 4, 5]))  # overlapping
    index = torch.arange(4, 12)
    assert torch.equal(store.layer(0).gather_keys(index), before[0])
    assert torch.equal(store.layer(0).gather_values(index), before[1])


class _Indexed(TorchFunctionMode):
    """Devices of the indices that tensors are read and written with."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[1], Tensor):
            self.devices.append(args[1].device.type)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", DTYPES)
def test_slots_to_move_go_to_the_device_before_the_layers_ask_for_them(dtype: torch.dtype) -> None:
    store = KVStore.zeros([(2, 6, 6)] * 3, 8, dtype, "meta")
    with _Indexed() as seen:
        store.move(torch.tensor([0, 1]), torch.tensor([2, 3]))
    assert seen.devices == ["meta"] * (2 * 3 * (4 if dtype is torch.int8 else 2))
    KVStore.zeros([], 0, dtype).move(torch.tensor([0]), torch.tensor([1]))  # a recurrent target may have no layers


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2), (torch.int8, 1)])
def test_a_slot_takes_what_its_tensors_take(dtype: torch.dtype, size: int) -> None:
    shapes = [(2, 12, 20), (3, 8, 8)]
    store = KVStore.zeros(shapes, 5, dtype)
    scales = 4 * 2 * (2 + 3) if dtype is torch.int8 else 0
    assert store.bytes_per_slot == size * (2 * 32 + 3 * 16) + scales
    assert KVStore.zeros(shapes, 0, dtype).bytes_per_slot == store.bytes_per_slot
    assert (store.dtype, store.num_slots) == (dtype, 5)
