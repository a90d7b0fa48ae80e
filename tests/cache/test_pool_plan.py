"""How large a pool becomes, what it refuses, and what it offers instead."""

from __future__ import annotations

import pytest
import torch

from forerun.cache import pool_plan
from forerun.cache.byte_size import bytes_text, read_bytes
from forerun.cache.pool_plan import PoolPlan
from forerun.drafters.method import DraftModel
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.errors import ForerunError
from forerun.models.native.kernels import find_kernels
from forerun.models.native.native_decoder import on_best_kernels
from forerun.sampling.params import SamplingParams
from support.tiny_decoder import tiny_decoder

# Two layers of two heads of 8: keys and values of a token are 64 numbers, and int8 has 8 scales.
TARGET = tiny_decoder(2, max_context=40_000)
IN_FP32, IN_BF16, IN_INT8 = 256, 128, 64 + 32


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2**31), ("1.5 MiB", 3 * 2**19), ("10kB", 10_000), ("7", 7), (" 3MB ", 3_000_000), ("1GB", 10**9)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "2 gib", "2TiB", "0", "0.1", "1e3", "9" * 5000, "nan", "٣MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ForerunError, match="a size such as 2GiB"):
        read_bytes(text)


def test_sizes_are_shown_with_three_digits() -> None:
    sizes = [999, 1024, 23_040, 755 * 2**20, 3 * 2**29, 2**40]
    assert [bytes_text(size) for size in sizes] == ["999 bytes", "1 KiB", "22.5 KiB", "755 MiB", "1.5 GiB", "1024 GiB"]


@pytest.mark.parametrize(
    ("dtype", "size"), [(None, IN_FP32), (torch.float32, IN_FP32), (torch.bfloat16, IN_BF16), (torch.int8, IN_INT8)]
)
def test_bytes_and_tokens_come_to_the_same_pool(dtype: torch.dtype | None, size: int) -> None:
    by_tokens = PoolPlan.of([TARGET], block_size=16, kv_dtype=dtype, cache_tokens=33)
    assert (by_tokens.num_tokens, by_tokens.bytes_per_token, by_tokens.num_bytes) == (48, size, 48 * size)
    by_bytes = PoolPlan.of([TARGET], block_size=16, kv_dtype=dtype, cache_bytes=48 * size + size)
    assert (by_bytes.num_blocks, by_bytes.num_bytes) == (3, 48 * size)
    assert PoolPlan.of([TARGET], block_size=16, kv_dtype=dtype).num_tokens == 8192


@pytest.mark.parametrize(("kv_dtype", "size"), [("auto", 256), ("fp32", 256), ("bf16", 128), ("int8", 96)])
def test_the_pools_of_an_engine_take_what_was_given_a_draft_models_too(kv_dtype: str, size: int) -> None:
    second = DraftModel(tiny_decoder(1, seed=4))
    given = 100_000
    engine = Engine(TARGET, Drafting("draft_model", 3), draft_model=second, cache_bytes=given, kv_dtype=kv_dtype)
    stores = (engine.cache.store, engine.drafter.cache.store)
    assert len({store.dtype for store in stores}) == 1
    taken = sum(
        tensor.nbytes
        for store in stores
        for tensor in (*store.keys, *store.values, *store.key_scales, *store.value_scales)
    )
    per_token = size + size // 2
    assert taken == engine.pool_plan.num_bytes == given // (16 * per_token) * 16 * per_token


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ({"cache_tokens": 64, "cache_bytes": 64}, "found both"),
        ({"cache_tokens": 0}, "one block of 16 tokens"),
        ({"cache_bytes": 4095}, r"one block of 16 tokens \(4 KiB\); found cache_bytes=4095"),
        ({"kv_dtype": "int4"}, "a kv dtype auto, float32, bfloat16, int8; found 'int4'"),
    ],
)
def test_sizes_that_make_no_pool_are_refused(sizes: dict[str, object], match: str) -> None:
    with pytest.raises(ForerunError, match=match):
        Engine(TARGET, **sizes)


def test_a_pool_larger_than_free_memory_is_refused_with_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_plan, "free_memory", lambda device: 64 * IN_FP32)
    PoolPlan.of([TARGET], block_size=16, cache_tokens=64)
    with pytest.raises(ForerunError) as error:
        PoolPlan.of([TARGET], block_size=16, cache_tokens=65)
    assert error.value.expected == "a cache within the 16 KiB of memory that are free"
    assert error.value.found == "80 tokens in float32, which take 20 KiB"
    assert error.value.remedy == "ask for at most 64 tokens in float32 or 128 tokens in bfloat16 or 160 tokens in int8"
    for tokens, dtype in ((128, torch.bfloat16), (160, torch.int8)):
        PoolPlan.of([TARGET], block_size=16, kv_dtype=dtype, cache_tokens=tokens)


def test_a_machine_without_that_much_memory_says_so() -> None:
    with pytest.raises(ForerunError, match="of memory that are free"):
        Engine(TARGET, cache_tokens=10**12)


def refusal(num_prompt: int, max_tokens: int, **sizes: object) -> ForerunError:
    with pytest.raises(ForerunError) as error:
        Engine(TARGET, **sizes).submit([1] * num_prompt, SamplingParams(max_tokens=max_tokens))
    return error.value


def test_a_refused_request_hears_what_fits_and_what_would_hold_it() -> None:
    error = refusal(100, 100, cache_tokens=128)
    assert error.expected == "prompt and output within the cache of 128 tokens (float32, 32 KiB)"
    assert error.found == "100 + 100 tokens, which take 224 (56 KiB; in int8 21 KiB)"
    assert error.remedy == "lower max_tokens to 12, or raise cache_tokens to 224"
    Engine(TARGET, cache_tokens=128).submit([1] * 100, SamplingParams(max_tokens=12))
    Engine(TARGET, cache_tokens=224).submit([1] * 100, SamplingParams(max_tokens=100))
    with pytest.raises(ForerunError):
        Engine(TARGET, cache_tokens=128).submit([1] * 100, SamplingParams(max_tokens=13))


def test_a_pool_in_bytes_offers_a_smaller_number_type_or_more_bytes() -> None:
    assert refusal(200, 100, cache_bytes=32_768).remedy == (
        "shorten prompt and output to 112 tokens together, or choose kv_dtype int8, which holds 336 tokens there"
    )
    Engine(TARGET, cache_bytes=32_768, kv_dtype="int8").submit([1] * 200, SamplingParams(max_tokens=100))
    assert refusal(2000, 100, cache_bytes=32_768).remedy == (
        f"shorten prompt and output to 112 tokens together, or raise cache_bytes to {2128 * IN_FP32}"
    )
    Engine(TARGET, cache_bytes=2128 * IN_FP32).submit([1] * 2000, SamplingParams(max_tokens=100))
    assert refusal(2000, 100, cache_bytes=32_768, kv_dtype="int8").remedy.endswith(f"to {2128 * IN_INT8}")


@pytest.mark.parametrize("block_size", [0, -3])
def test_blocks_hold_a_token_at_least(block_size: int) -> None:
    with pytest.raises(ForerunError, match="blocks of a token or more"):
        Engine(TARGET, block_size=block_size)


@pytest.mark.parametrize("length", [3000, pytest.param(32_768, marks=pytest.mark.slow)])
def test_a_long_context_runs_within_the_bytes_of_its_pool(length: int) -> None:
    """The pool is just large enough."""
    blocks = -(-(length + 8) // 16) + 1
    target = on_best_kernels(tiny_decoder(2, max_context=40_000), find_kernels())
    num_bytes = blocks * 16 * target.new_store(0, torch.int8).bytes_per_slot
    engine = Engine(target, cache_bytes=num_bytes, kv_dtype="int8")
    assert engine.pool_plan.num_blocks == blocks
    (found,) = engine.generate([[1, 2, 3, 4] * (length // 4)], SamplingParams(max_tokens=8, ignore_eos=True))
    assert len(found.token_ids) == 8 and engine.pool_plan.num_bytes <= num_bytes
