"""The parts that the same-bytes promise rests on, at sizes where torch's own kernels break it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from forerun.errors import ForerunError
from forerun.models import attention_plan
from forerun.models.attention import attend
from forerun.models.attention_plan import KEY_BLOCK, QUERY_TILE, plan_attention
from forerun.models.base import AttentionGroup
from forerun.models.exact_ops import gelu_tanh, sigmoid, silu, softcap
from forerun.models.kv_layer import KVLayer
from forerun.models.rotary import Rotary, rotate
from forerun.models.tiled_linear import ROW_TILE, TiledLinear


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("shape", [(1152, 896), (896, 4864), (61, 700), (333, 777), (3072, 576)])
def test_a_linear_row_is_the_same_anywhere(shape: tuple[int, int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(shape, generator=generator).to(dtype)
    bias = torch.randn(shape[0], generator=generator).to(dtype)
    rows = torch.randn(45, shape[1], generator=generator).to(dtype)
    linear = TiledLinear(weight, bias)
    torch.set_num_threads(1)
    expected = torch.cat([linear(row[None]) for row in rows])
    torch.testing.assert_close(
        expected.double(),
        F.linear(rows.double(), weight.double(), bias.double()),
        atol=1e-2 if dtype is torch.float32 else 2.0,
        rtol=1e-2,
    )
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        order = torch.randperm(45, generator=generator)
        for count in (2, ROW_TILE - 1, ROW_TILE, ROW_TILE + 1, 45):
            assert torch.equal(linear(rows[order[:count]]), expected[order[:count]]), (threads, count)


@pytest.mark.parametrize("has_bias", [True, False])
def test_packing_changes_no_bits(has_bias: bool) -> None:
    bias = torch.randn(333).bfloat16() if has_bias else None
    plain, packed = (TiledLinear(torch.ones(333, 700).bfloat16(), bias) for _ in range(2))
    weight = torch.randn(333, 700).bfloat16()
    for linear in (plain, packed):
        linear.weight.data.copy_(weight)
    packed.pack()
    x = torch.randn(20, 700)
    assert torch.equal(plain(x), packed(x))
    assert packed(x).dtype is torch.bfloat16


def test_a_linear_keeps_leading_dimensions_and_takes_no_rows() -> None:
    linear = TiledLinear(torch.randn(6, 5))
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(linear(x), F.linear(x, linear.weight))
    assert linear(x[:0]).shape == (0, 3, 6)


@pytest.mark.parametrize(
    ("ours", "reference"),
    [
        (silu, F.silu),
        (sigmoid, torch.sigmoid),
        (gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
        (lambda x: softcap(x, 7.0), lambda x: torch.tanh(x / 7.0) * 7.0),
    ],
    ids=["silu", "sigmoid", "gelu_tanh", "softcap"],
)
def test_activations_have_the_same_bits_at_any_place(
    ours: Callable[[Tensor], Tensor], reference: Callable[[Tensor], Tensor]
) -> None:
    x = torch.randn(100_003, generator=torch.Generator().manual_seed(2)) * 4
    torch.set_num_threads(1)
    expected = ours(x)
    torch.testing.assert_close(expected.double(), reference(x.double()), atol=1e-6, rtol=1e-5)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        for start, end in ((0, 7), (1, 100_003), (13, 40_014), (99_990, 100_003)):
            assert torch.equal(ours(x[start:end]), expected[start:end])


def test_activations_take_large_values() -> None:
    x = torch.tensor([-1e30, -200.0, 0.0, 200.0, 1e9])
    torch.testing.assert_close(silu(x), F.silu(x))
    torch.testing.assert_close(sigmoid(x), torch.sigmoid(x))


@pytest.mark.parametrize("width", [48, 61, 576, 896])
def test_rms_norm_has_the_same_bits_for_any_row_count(width: int) -> None:
    x, weight = torch.randn(50, 3, width)[:, 1], torch.randn(width)
    torch.set_num_threads(1)
    expected = torch.cat([F.rms_norm(row[None], (width,), weight, 1e-6) for row in x])
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        for count in (1, 2, 17, 50):
            assert torch.equal(F.rms_norm(x[:count], (width,), weight, 1e-6), expected[:count])


def dense_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None, cap: float | None, sinks: Tensor | None
) -> Tensor:
    """The textbook formula in float64, [rows, heads, width]."""
    q, k, v = (part.double().transpose(0, 1) for part in (q, k, v))
    shared = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(shared, 0), v.repeat_interleave(shared, 0)
    scores = q @ k.transpose(1, 2) * scale
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    at = torch.arange(q.shape[1])
    seen = at[None] <= at[:, None]
    if window is not None:
        seen &= at[None] > at[:, None] - window
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is None:
        return (scores.softmax(-1) @ v).transpose(0, 1)
    extra = sinks.double()[:, None, None].expand(-1, q.shape[1], 1)
    return (torch.cat([scores, extra], -1).softmax(-1)[..., :-1] @ v).transpose(0, 1)


@pytest.mark.parametrize("window", [None, 1, 30, KEY_BLOCK, 100])
@pytest.mark.parametrize("extras", ["plain", "softcap", "sinks"])
def test_attention_is_right_and_the_same_for_any_cut(
    monkeypatch: pytest.MonkeyPatch, window: int | None, extras: str
) -> None:
    generator = torch.Generator().manual_seed(4)
    length, heads, kv_heads, width = 3 * KEY_BLOCK + 8, 6, 2, 20
    q = torch.randn(length, heads, width, generator=generator)
    k = torch.randn(length, kv_heads, width, generator=generator)
    v = torch.randn(length, kv_heads, width + 4, generator=generator)
    slots = torch.randperm(512, generator=generator)[:length]
    unwritten = float("nan")  # nothing outside the row's own keys may be read into a result
    keys, values = torch.full((512, kv_heads, width), unwritten), torch.full((512, kv_heads, width + 4), unwritten)
    keys[slots], values[slots] = k, v
    cap = 3.0 if extras == "softcap" else None
    sinks = torch.randn(heads, generator=generator) if extras == "sinks" else None

    def run(rows: list[int]) -> Tensor:
        plan = plan_attention(
            torch.tensor(rows),
            [AttentionGroup(tuple(range(len(rows))), slots)],
            num_heads=heads,
            num_kv_heads=kv_heads,
            window=window,
        )
        return attend(q[rows], KVLayer(keys, values), plan, scale=0.3, softcap=cap, sinks=sinks)

    expected = torch.cat([run([row]) for row in range(length)])
    reference = dense_attention(q, k, v, 0.3, window, cap, sinks)
    torch.testing.assert_close(expected.double(), reference, atol=2e-6, rtol=0)
    shuffle = random.Random(6)
    for size in (2, QUERY_TILE, QUERY_TILE + 1, 50, length):
        rows = shuffle.sample(range(length), size)
        for limit in (2048, 14, 1):  # products at a time
            monkeypatch.setattr(attention_plan, "MAX_PRODUCTS", limit)
            parts = [run(list(range(start, min(length, start + size)))) for start in range(0, length, size)]
            assert torch.equal(torch.cat(parts), expected), size
            assert torch.equal(run(rows), expected[rows]), size


@pytest.mark.parametrize("num_kv_heads", [1, 3, 8])
def test_a_long_context_is_worked_through_in_parts_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch, num_kv_heads: int
) -> None:
    """Gathered keys and values are bounded by the part, not by rows times context."""
    positions = torch.arange(5000, 5400)
    groups = [AttentionGroup(tuple(range(400)), torch.arange(5400))]

    def products() -> list[int]:
        plan = plan_attention(positions, groups, num_heads=24, num_kv_heads=num_kv_heads)
        return [len(part.item_tile) * num_kv_heads for part in plan.parts]

    bounded = products()
    assert len(bounded) > 1 and max(bounded) <= attention_plan.MAX_PRODUCTS
    monkeypatch.setattr(attention_plan, "MAX_PRODUCTS", 10**9)
    assert products() == [sum(bounded)]


ROTARY_KINDS = {
    "default": {},
    "linear": {"factor": 4.0},
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 512},
    "yarn with its options": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 16.0,
        "beta_slow": 2.0, "mscale": 1.2, "mscale_all_dim": 0.8, "truncate": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ROTARY_KINDS)
def test_rotary_frequencies_equal_transformers(kind: str) -> None:
    parameters = {"rope_type": kind, "rope_theta": 500_000.0} | ROTARY_KINDS[kind]
    config = AutoConfig.for_model(
        "llama", head_dim=64, hidden_size=256, num_attention_heads=4, max_position_embeddings=2048,
        rope_parameters=parameters,
    )  # fmt: skip
    if kind == "default":
        expected, factor = 1 / 500_000.0 ** (torch.arange(0, 64, 2).float() / 64), 1.0
    else:
        expected, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, torch.device("cpu"))
    rotary = Rotary.from_parameters(config.rope_parameters, 64, 2048)
    torch.testing.assert_close(torch.tensor(rotary.inverse_frequencies), expected, atol=0, rtol=1e-6)
    assert rotary.factor == pytest.approx(factor)


@pytest.mark.parametrize("kind", ["dynamic", "longrope", "su"])
def test_rotary_scalings_that_follow_the_batch_are_refused(kind: str) -> None:
    with pytest.raises(ForerunError, match=kind):
        Rotary.from_parameters({"rope_type": kind, "rope_theta": 1e4, "factor": 2.0}, 64, 2048)


def test_rotation_has_the_same_bits_for_any_row_count() -> None:
    rotary = Rotary.from_parameters({"rope_theta": 1e4}, 24, 100_000)
    states, positions = torch.randn(101, 3, 24), torch.randint(0, 100_000, (101,))
    expected = rotate(states, rotary.angles(positions))
    for row in range(101):
        assert torch.equal(rotate(states[row : row + 1], rotary.angles(positions[row : row + 1]))[0], expected[row])


@pytest.mark.parametrize("width", [20, 24, 72, 104])
def test_attention_has_the_same_bits_at_any_thread_count(width: int) -> None:
    """One tile of one kv head, whose product MKL cuts by threads, beside many."""
    generator = torch.Generator().manual_seed(5)
    length, kv_heads = KEY_BLOCK + 6, 1
    queries = torch.randn(length, 7, width, generator=generator)
    layer = KVLayer(*torch.randn(2, length, kv_heads, width, generator=generator))

    def mixed(size: int) -> Tensor:
        parts = []
        for start in range(0, length, size):
            end = min(start + size, length)
            groups = [AttentionGroup(tuple(range(end - start)), torch.arange(end))]
            plan = plan_attention(torch.arange(start, end), groups, num_heads=7, num_kv_heads=kv_heads)
            parts.append(attend(queries[start:end], layer, plan, scale=0.3))
        return torch.cat(parts)

    torch.set_num_threads(1)
    expected = mixed(1)
    for threads in (2, 3, 4, 8):
        torch.set_num_threads(threads)
        for size in (1, QUERY_TILE, length):
            assert torch.equal(mixed(size), expected), (threads, size)
