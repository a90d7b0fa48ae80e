"""Linears over a GGUF file's blocks: the file's numbers, exact integer sums, rows that don't depend on each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from forerun.models.native.block_linear import BlockLinear
from forerun.models.native.kernels import Kernels
from forerun.models.native.stored_blocks import FORMATS, Arrangement, StoredBlocks
from support.stored_blocks import dequantised, random_blocks, runnable_kernels

KERNELS = runnable_kernels()
BLOCK = 32

on_every_path = pytest.mark.parametrize("kernels", KERNELS, ids=lambda kernels: kernels.path)
in_every_format = pytest.mark.parametrize("name", FORMATS.values())
pytestmark = pytest.mark.skipif(not KERNELS, reason="no kernels are built")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def packed(kernels: Kernels, *parts: StoredBlocks) -> BlockLinear:
    return BlockLinear(kernels, parts, Arrangement.below_each_other(parts))


def rounded(x: Tensor) -> Tensor:
    """int8 per row and block, times the block's amax / 127; float64 of the exact product."""
    blocks = x.view(len(x), -1, BLOCK)
    largest = blocks.abs().amax(-1, keepdim=True)
    whole = (blocks * torch.where(largest > 0, 127 / largest, 0)).round()
    return (whole.double() * (largest / 127).double()).view(x.shape)


@on_every_path
@in_every_format
def test_rows_come_back_as_the_library_dequantises_them(kernels: Kernels, name: str) -> None:
    blocks = random_blocks(name, 70, 512)
    ids = torch.tensor([69, 0, 31, 32, 0])
    assert torch.equal(packed(kernels, blocks).rows(ids), dequantised(blocks)[ids])


@on_every_path
@in_every_format
def test_the_product_of_whole_numbers_is_exact(kernels: Kernels, name: str) -> None:
    """A 127 in every block makes its scale 1, and scales of an eighth let fp32 hold every sum."""
    blocks = random_blocks(name, 50, 512, scale=0.125)
    x = torch.randint(-3, 4, (7, 512), generator=torch.Generator().manual_seed(1)).float()
    x[:, ::BLOCK] = torch.where(torch.arange(0, 512, BLOCK) % 3 == 0, -127.0, 127.0)
    expected = x.double() @ dequantised(blocks).double().T
    assert torch.equal(packed(kernels, blocks)(x).double(), expected)


@on_every_path
@in_every_format
def test_full_range_inputs_never_overflow(kernels: Kernels, name: str) -> None:
    blocks = random_blocks(name, 50, 512)
    x = torch.randint(0, 2, (3, 512), generator=torch.Generator().manual_seed(2)).float() * 254 - 127
    expected = x.double() @ dequantised(blocks).double().T
    torch.testing.assert_close(
        packed(kernels, blocks)(x).double() / expected.abs().max(), expected / expected.abs().max(), atol=1e-6, rtol=0
    )


@on_every_path
@in_every_format
def test_rows_are_rounded_to_int8_per_block(kernels: Kernels, name: str) -> None:
    blocks = random_blocks(name, 64, 768)
    x = torch.randn(9, 768, generator=torch.Generator().manual_seed(3)) * torch.logspace(-6, 4, 768)
    x[4, 64:96] = 0
    expected = rounded(x) @ dequantised(blocks).double().T
    scale = (rounded(x).abs() @ dequantised(blocks).double().abs().T).clamp(min=1e-30)
    assert ((packed(kernels, blocks)(x) - expected).abs() / scale).max() < 1e-6


@on_every_path
@in_every_format
def test_rows_have_the_same_bits_at_any_row_and_thread_count(kernels: Kernels, name: str) -> None:
    linear = packed(kernels, random_blocks(name, 72, 2048))  # long enough to be cut where tiles share the cache
    x = torch.randn(64, 2048, generator=torch.Generator().manual_seed(4))
    torch.set_num_threads(1)
    alone = torch.cat([linear(row[None]) for row in x])
    for num_threads in (1, 3, 4):
        torch.set_num_threads(num_threads)
        for num_rows in (*range(1, 20), 37, 64):
            assert torch.equal(linear(x[-num_rows:]), alone[-num_rows:]), (num_threads, num_rows)


@on_every_path
def test_parts_of_different_formats_share_a_matrix(kernels: Kernels) -> None:
    parts = [random_blocks(name, rows, 256) for name, rows in (("Q5_0", 64), ("Q4_K", 32), ("Q6_K", 33))]
    bias = torch.randn(129)
    linear = BlockLinear(kernels, parts, Arrangement.below_each_other(parts), bias)
    x = torch.randn(5, 256)
    assert torch.equal(linear(x), torch.cat([packed(kernels, part)(x) for part in parts], 1) + bias)


@on_every_path
def test_gate_and_up_take_turns(kernels: Kernels) -> None:
    gate, up = random_blocks("Q4_1", 40, 96, seed=1), random_blocks("Q4_1", 40, 96, seed=2)
    linear = BlockLinear(kernels, [gate, up], Arrangement.in_turns([gate, up]))
    x = torch.randn(5, 96)
    halves = linear(x).view(5, -1, 2, 16)
    for index, part in enumerate((gate, up)):
        assert torch.equal(halves[:, :, index].flatten(1)[:, :40], packed(kernels, part)(x))


def test_a_panel_never_needs_two_formats() -> None:
    small, other = random_blocks("Q4_0", 16, 64), random_blocks("Q8_0", 32, 64)
    assert Arrangement.below_each_other([small, other]).panel_formats is None
    assert Arrangement.in_turns([small, other]).panel_formats is None
    assert Arrangement.below_each_other([random_blocks("Q4_0", 20, 64), small]).panel_formats is None
    assert Arrangement.below_each_other([other, small]).panel_formats == (8, 2)


@on_every_path
@pytest.mark.parametrize("strange", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_a_number_stays_none(kernels: Kernels, strange: float) -> None:
    linear = packed(kernels, random_blocks("Q4_0", 32, 64))
    x = torch.randn(3, 64)
    x[1, 40] = strange
    y = linear(x)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()


@on_every_path
def test_an_infinite_scale_is_refused(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="finite"):
        packed(kernels, random_blocks("Q4_0", 32, 64, scale=torch.inf))
