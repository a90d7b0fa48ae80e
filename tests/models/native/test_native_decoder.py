"""The native decoder on every kernel path: the torch decoder's numbers, and the same bits however work is cut."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from forerun.models.base import AttentionGroup, PassInput, PassOutput, Target
from forerun.models.decoder import Decoder
from forerun.models.kv_store import KVStore
from forerun.models.loading import load_directory
from forerun.models.native.kernels import Kernels
from forerun.models.native.native_decoder import NativeDecoder
from forerun.types import Tap, TapKind
from support.passes import Chunk, batch_of, run_chunked
from support.tiny_models import BY_NAME, TINY_MODELS, load, random_tokens

LONG = 300  # beyond one chunk of attention (256 keys), so that partial results are merged
SAMPLE = ["llama_biased", "qwen2_sliding", "gemma3"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
Load = Callable[..., Decoder]


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a tiny model by its name."""
    directories: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in directories:
            directories[name] = tmp_path_factory.mktemp(name)
            BY_NAME[name].save(directories[name])
        return directories[name]

    return get


@pytest.fixture(scope="session")
def tiny(saved: Callable[[str], Path]) -> Load:
    """A tiny model as the torch decoder."""
    return functools.cache(lambda name, dtype=torch.float32: load(saved(name), dtype))


@pytest.fixture(scope="session")
def native(saved: Callable[[str], Path], kernels: Kernels) -> Callable[..., NativeDecoder]:
    """A tiny model on the path under test."""

    @functools.cache
    def get(name: str, dtype: torch.dtype = torch.float32) -> NativeDecoder:
        directory = saved(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(load_directory, "find_kernels", lambda: kernels)
            config = AutoConfig.from_pretrained(directory)
            target = load_directory.load_directory_target(directory, config, dtype, torch.device("cpu"))
        assert isinstance(target, NativeDecoder) and target.traits.kernels == kernels.path
        return target

    return get


@functools.cache
def reference_logits(name: str) -> torch.Tensor:
    """Of ``LONG`` tokens, computed in float64: two sums in fp32 may be twice as far apart as either is from this."""
    with torch.no_grad():
        return BY_NAME[name].build().double()(torch.tensor([random_tokens(LONG)])).logits[0]


def pool(target: Target, kind: str, num_slots: int = LONG) -> KVStore:
    return target.new_store(num_slots, DTYPES[kind])


@pytest.mark.parametrize("name", [tiny.name for tiny in TINY_MODELS])
def test_logits_equal_transformers_in_float64(name: str, native: Callable[..., NativeDecoder]) -> None:
    tokens = random_tokens(LONG)
    expected = reference_logits(name)
    scale = expected.abs().max()
    assert scale > 0.5, "a model whose logits are all alike would prove nothing"
    for size in (LONG, 33, 7):
        found = run_chunked(native(name), tokens, size).double()
        torch.testing.assert_close(found / scale, expected / scale, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", SAMPLE)
def test_the_host_array_is_the_logits(name: str, native: Callable[..., NativeDecoder]) -> None:
    slots = torch.arange(7)
    output = native(name).forward(batch_of([Chunk(random_tokens(7), 0, slots)]), pool(native(name), "fp32", 7))
    assert output.host is not None and output.host_logits is output.host
    assert output.host.ctypes.data == output.logits.data_ptr()
    assert output.host.shape == tuple(output.logits.shape)
    taken = PassOutput(output.logits.to(torch.float64), {}).host_logits
    assert (taken == output.host).all()


@pytest.mark.parametrize("kind", ["bf16", "int8"])
@pytest.mark.parametrize("name", SAMPLE)
def test_small_pools_stay_near_the_torch_decoder(
    name: str, kind: str, tiny: Load, native: Callable[..., NativeDecoder]
) -> None:
    """Queries may be rounded to bf16 where keys are; a key at a rounding border may fall either way."""
    tokens, torch_decoder = random_tokens(LONG), tiny(name)
    expected = run_chunked(torch_decoder, tokens, 100, store=pool(torch_decoder, kind))
    found = run_chunked(native(name), tokens, 100, store=pool(native(name), kind))
    assert ((found - expected).abs().mean() / expected.std()) < 0.02


@pytest.mark.parametrize("name", SAMPLE)
def test_bf16_weights_stay_near_fp32(name: str, tiny: Load, native: Callable[..., NativeDecoder]) -> None:
    tokens = random_tokens(100)
    expected = tiny(name).logits_of(tokens)
    found = native(name, torch.bfloat16).logits_of(tokens)
    assert ((found - expected).abs().mean() / expected.std()) < 0.05


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_taps_equal_the_torch_decoder(name: str, tiny: Load, native: Callable[..., NativeDecoder]) -> None:
    batch = batch_of([Chunk(random_tokens(40), 0, torch.arange(40))])
    torch_decoder = tiny(name)
    taps = frozenset({Tap.of_block(0), Tap.of_block(2), Tap(TapKind.BEFORE_FINAL_NORM), Tap(TapKind.AFTER_FINAL_NORM)})
    expected = torch_decoder.forward(batch, pool(torch_decoder, "fp32"), taps).taps
    found = native(name).forward(batch, pool(native(name), "fp32"), taps).taps
    assert found.keys() == taps
    for tap in taps:
        scale = expected[tap].abs().max()
        torch.testing.assert_close(found[tap] / scale, expected[tap] / scale, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("name", SAMPLE)
def test_same_bits_however_rows_and_threads_are_cut(
    name: str, dtype: torch.dtype, kind: str, native: Callable[..., NativeDecoder]
) -> None:
    target, tokens = native(name, dtype), random_tokens(LONG)
    torch.set_num_threads(1)
    expected = run_chunked(target, tokens, LONG, store=pool(target, kind))
    for threads, size in ((1, 3), (2, 1), (3, 17), (4, 40)):
        torch.set_num_threads(threads)
        slots = torch.randperm(LONG, generator=torch.Generator().manual_seed(size))
        assert torch.equal(run_chunked(target, tokens, size, slots, pool(target, kind)), expected), (threads, size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("name", [tiny.name for tiny in TINY_MODELS])
def test_same_bits_at_every_row_count(
    name: str, dtype: torch.dtype, kind: str, native: Callable[..., NativeDecoder]
) -> None:
    target, tokens = native(name, dtype), random_tokens(LONG)
    torch.set_num_threads(1)
    expected = run_chunked(target, tokens, LONG, store=pool(target, kind))
    for size in range(1, 41):
        torch.set_num_threads(1 + size % 4)
        assert torch.equal(run_chunked(target, tokens, size, store=pool(target, kind)), expected), size


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("prefix", [62, 255, 280])
def test_tree_paths_equal_chains_beside_a_neighbour(
    prefix: int, kind: str, native: Callable[..., NativeDecoder]
) -> None:
    """A tree on one sequence, one row of another before it, threads and slots mixed; both equal to being alone."""
    target = native("qwen2_sliding", torch.bfloat16)
    prompt, other = random_tokens(prefix), random_tokens(21, seed=1)
    tokens, depths = [9, 10, 11, 12, 13, 14], [0, 1, 1, 2, 3, 2]
    paths = [(0, 2), (0, 1, 3, 4), (0, 1, 5)]
    slots = torch.randperm(400, generator=torch.Generator().manual_seed(prefix))
    committed, own, others = slots[:prefix], slots[prefix : prefix + 6], slots[prefix + 6 : prefix + 27]
    store = pool(target, kind, 400)
    torch.set_num_threads(2)
    run_chunked(target, prompt, 90, committed, store)
    run_chunked(target, other[:20], 20, others, store)
    groups, covered = [AttentionGroup((0,), others)], set()
    for path in paths:
        rows = tuple(1 + row for row in path if row not in covered)
        covered |= set(path)
        groups.append(AttentionGroup(rows, torch.cat([committed, own[list(path)]])))
    batch = PassInput(
        torch.tensor([other[20], *tokens]),
        torch.tensor([20, *(prefix + depth for depth in depths)]),
        torch.cat([others[20:], own]),
        (0,) + (1,) * 6,
        tuple(groups),
        tuple(range(7)),
        {0: 1, 1: 1},
    )
    found = target.forward(batch, store).logits
    torch.set_num_threads(1)
    alone = run_chunked(target, other, 1, store=pool(target, kind, 21))
    assert torch.equal(found[0], alone[20])
    for path in paths:
        chain = run_chunked(target, prompt + [tokens[row] for row in path], 50, store=pool(target, kind))
        assert torch.equal(found[[1 + row for row in path]], chain[prefix:])
