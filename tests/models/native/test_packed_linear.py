"""Packed linears on every kernel path: near an exact sum, and the same bits whatever is beside a row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from forerun.models.native.kernels import Kernels
from forerun.models.native.packed_linear import PackedLinear

# (outputs, inputs): not whole panels, not whole AMX tiles, more than the block that several tiles pass over (1,024 k).
SHAPES = [(1, 1), (15, 33), (16, 32), (17, 31), (32, 64), (33, 50), (97, 2), (40, 1100), (70, 2080)]
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])


def random_weights(num_outputs: int, num_inputs: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(num_outputs * 10_000 + num_inputs)
    return torch.randn(num_outputs, num_inputs, generator=generator).to(dtype)


def random_rows(num_rows: int, num_inputs: int) -> Tensor:
    return torch.randn(num_rows, num_inputs, generator=torch.Generator().manual_seed(num_inputs))


def exact(kernels: Kernels, weight: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """float64 products of the numbers that the path multiplies, and of their magnitudes: what rounding goes by."""
    if weight.dtype is torch.bfloat16 and kernels.rounds_rows:
        x = x.bfloat16()
    return x.double() @ weight.double().T, x.double().abs() @ weight.double().abs().T


@dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_near_the_exact_sum(shape: tuple[int, int], dtype: torch.dtype, kernels: Kernels) -> None:
    weight, x = random_weights(*shape, dtype), random_rows(5, shape[1])
    bias = torch.linspace(-1, 1, shape[0])
    expected, magnitudes = exact(kernels, weight, x)
    for given, added in ((None, torch.zeros(())), (bias, bias)):
        found = PackedLinear(kernels, [weight], [given], dtype)(x)
        assert found.shape == expected.shape and found.dtype is torch.float32
        assert ((found - expected - added).abs() <= 4e-6 * (magnitudes + 1)).all()


@dtypes
@pytest.mark.parametrize("shape", [(33, 50), (70, 2080)], ids=str)
def test_same_bits_at_any_row_and_thread_count(shape: tuple[int, int], dtype: torch.dtype, kernels: Kernels) -> None:
    linear = PackedLinear(kernels, [random_weights(*shape, dtype)], [None], dtype)
    x = random_rows(64, shape[1])
    torch.set_num_threads(1)
    expected = torch.cat([linear(row[None]) for row in x])
    assert len(expected.unique()) > 1000
    for num_rows in range(1, 65):
        torch.set_num_threads(1 + num_rows % 4)
        first = num_rows * 7 % (65 - num_rows)
        assert torch.equal(linear(x[first : first + num_rows]), expected[first : first + num_rows]), num_rows


@dtypes
def test_same_bits_in_any_panel(dtype: torch.dtype, kernels: Kernels) -> None:
    weight, x = random_weights(75, 90, dtype), random_rows(3, 90)
    order = torch.randperm(75, generator=torch.Generator().manual_seed(1))
    whole = PackedLinear(kernels, [weight], [None], dtype)(x)
    assert torch.equal(PackedLinear(kernels, [weight[order]], [None], dtype)(x), whole[:, order])


@dtypes
@pytest.mark.parametrize("num_outputs", [16, 48, 40])
def test_two_parts_take_turns(num_outputs: int, dtype: torch.dtype, kernels: Kernels) -> None:
    parts = [random_weights(num_outputs, inputs, dtype)[:, :70].contiguous() for inputs in (70, 71)]
    biases = [torch.arange(num_outputs) * 1.0, torch.arange(num_outputs) * -2.0]
    x = random_rows(4, 70)
    alone = [PackedLinear(kernels, [part], [bias], dtype)(x) for part, bias in zip(parts, biases, strict=True)]
    turns = PackedLinear(kernels, parts, biases, dtype)(x).view(4, -1, 2, 16)
    for index in (0, 1):
        assert torch.equal(turns[:, :, index].flatten(1)[:, :num_outputs], alone[index])
        assert not turns[:, :, index].flatten(1)[:, num_outputs:].any()


@dtypes
def test_weights_come_back_as_they_were(dtype: torch.dtype, kernels: Kernels) -> None:
    weight = random_weights(45, 37, dtype)
    ids = torch.tensor([44, 0, 31, 32, 31])
    assert torch.equal(PackedLinear(kernels, [weight], [None], dtype).rows(ids), weight[ids].float())


@dtypes
def test_a_row_that_is_no_number_stays_alone(dtype: torch.dtype, kernels: Kernels) -> None:
    linear = PackedLinear(kernels, [random_weights(40, 64, dtype)], [None], dtype)
    x = random_rows(20, 64)
    expected = linear(x)
    x[7, 3] = torch.nan
    found = linear(x)
    others = torch.arange(20) != 7
    assert found[7].isnan().all()
    assert torch.equal(found[others], expected[others])


def test_fp32_weights_that_are_bf16_take_half_the_memory_and_give_the_same_bits(kernels: Kernels) -> None:
    weight, x = random_weights(70, 1100, torch.bfloat16).float(), random_rows(20, 1100)
    # One number too many keeps all of it fp32; its row of the matrix is left out of the comparison.
    other = weight.clone()
    other[69, 1099] = 1 + 2**-20
    kept, whole = (PackedLinear(kernels, [each], [None], torch.float32) for each in (weight, other))
    assert kept.weight_bytes == whole.weight_bytes // (1 if kernels.rounds_rows else 2)
    assert torch.equal(kept(x)[:, :69], whole(x)[:, :69])
    assert torch.equal(kept.rows(torch.arange(70)), weight)
