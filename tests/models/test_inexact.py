"""Torch's own kernels say what the exact ones say, to rounding, and are known by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from forerun.conditions import NO_ARTIFACT
from forerun.engine.describe import conditions_of
from forerun.engine.engine import Engine
from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, INEXACT, Arithmetic
from forerun.models.arithmetic.attention import AttentionShape
from forerun.models.arithmetic.sdpa_attention import SdpaAttention
from forerun.models.arithmetic.tiled_attention import TiledAttention
from forerun.models.base import AttentionGroup, PassInput
from forerun.models.decoder import Decoder
from forerun.models.kv_layer import KVLayer
from forerun.models.kv_store import KVStore
from forerun.models.loading.load_target import load_target
from forerun.sampling.params import SamplingParams
from support.passes import Chunk, batch_of, run_chunked
from support.tiny_decoder import tiny_decoder
from support.tiny_directory import save_tiny_directory
from support.tiny_models import TinyModel, random_tokens


def both(dtype: torch.dtype = torch.float32) -> tuple[Decoder, Decoder]:
    """The same weights under either arithmetic, packed as after loading."""
    source = tiny_decoder(3)

    def built(arithmetic: Arithmetic) -> Decoder:
        decoder = Decoder(source.config, name="tiny", dtype=dtype, arithmetic=arithmetic)
        for name, slot in decoder.weight_slots().items():
            slot.copy_(source.weight_slots()[name])
        decoder.pack()
        return decoder

    return built(EXACT), built(INEXACT)


def test_traits_say_which_is_exact() -> None:
    exact, inexact = both()
    assert exact.traits.is_bit_exact and not inexact.traits.is_bit_exact


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 0.03)])
@pytest.mark.parametrize("kv_dtype", [None, torch.int8])
def test_prefill_and_slices_agree(dtype: torch.dtype, tolerance: float, kv_dtype: torch.dtype | None) -> None:
    """On average within ``tolerance`` of the logits' spread, nowhere more than ten times as far."""
    tokens = [token % 31 for token in random_tokens(150)]
    exact, inexact = both(dtype)
    for size in (1, 19, 150):
        expected, found = (
            run_chunked(target, tokens, size, store=target.new_store(150, kv_dtype)) for target in (exact, inexact)
        )
        apart = (found - expected).abs() / expected.std()
        assert float(apart.mean()) < tolerance and float(apart.max()) < 10 * tolerance


def test_a_batch_of_unlike_sequences_and_a_tree_agree() -> None:
    """Two prefixes, then in one pass: three rows of one sequence, one row of another, a tree behind a third."""
    lengths = (70, 5, 33)
    places = torch.split(torch.randperm(160, generator=torch.Generator().manual_seed(1))[:128], [75, 10, 43])
    sequences = [[token % 31 for token in random_tokens(length, seed)] for seed, length in enumerate(lengths)]

    def run(target: Decoder) -> torch.Tensor:
        store = target.new_store(160)
        target.forward(batch_of([Chunk(tokens, 0, slots) for tokens, slots in zip(sequences, places)]), store)
        chain, single, tree = places
        # The tree: an anchor and two children, each a leaf's group with the anchor's row in the first.
        tree_slots = tree[33:36]
        groups = (
            AttentionGroup((0, 1, 2), chain[:73]),
            AttentionGroup((3,), single[:6]),
            AttentionGroup((4, 5), tree[:35]),
            AttentionGroup((6,), torch.cat([tree[:34], tree_slots[2:]])),
        )
        slots = torch.cat([chain[70:73], single[5:6], tree_slots])
        positions = torch.tensor([70, 71, 72, 5, 33, 34, 34])
        owners = (0, 0, 0, 1, 2, 2, 2)
        tokens = torch.arange(1, 8)
        batch = PassInput(tokens, positions, slots, owners, groups, tuple(range(7)), {0: 1, 1: 1, 2: 1})
        return target.forward(batch, store).logits

    exact, inexact = both()
    torch.testing.assert_close(run(inexact), run(exact), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("window", [None, 1, 40])
@pytest.mark.parametrize("num_kv_heads", [2, 6])
def test_attention_agrees_under_windows(window: int | None, num_kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(4)
    slots = torch.randperm(300, generator=generator)
    store = KVStore.zeros([(num_kv_heads, 16, 16)], 300, torch.float32)
    unwritten = torch.full((300, num_kv_heads, 16), float("nan"))
    store.write(0, torch.arange(300), unwritten, unwritten)
    keys, values = torch.randn(2, 200, num_kv_heads, 16, generator=generator)
    store.write(0, slots[:200], keys, values)
    positions = torch.tensor([199, 3, 150, 151, 60])
    queries = torch.randn(5, 6, 16, generator=generator)
    groups = [AttentionGroup((0,), slots[:200]), AttentionGroup((1, 2, 3), slots[:152]), AttentionGroup((4,), slots)]
    shape = AttentionShape(6, num_kv_heads, 0.25)
    layer: KVLayer = store.layer(0)
    tiled, sdpa = TiledAttention(shape), SdpaAttention(shape)
    expected = tiled.attend(queries, layer, tiled.plan(positions, groups, window))
    found = sdpa.attend(queries, layer, sdpa.plan(positions, groups, window))
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


def test_a_soft_cap_is_never_dropped() -> None:
    shape = AttentionShape(6, 2, 0.25, softcap=50.0)
    assert isinstance(INEXACT.attention(shape), TiledAttention)


def test_the_claim_is_needed() -> None:
    """Rows under the inexact arithmetic do depend on their neighbours; the exact ones don't."""
    tokens = [token % 31 for token in random_tokens(150)]
    exact, inexact = both()
    assert torch.equal(run_chunked(exact, tokens, 1), run_chunked(exact, tokens, 150))
    assert not torch.equal(run_chunked(inexact, tokens, 1), run_chunked(inexact, tokens, 150))


def test_a_target_is_loaded_inexact_where_that_is_asked_for(tmp_path: Path) -> None:
    save_tiny_directory(tmp_path)
    loaded = load_target(tmp_path, device="cpu", dtype="float32", exact=False)
    exact = load_target(tmp_path, device="cpu", dtype="float32").target
    assert not loaded.target.traits.is_bit_exact and loaded.target.traits.kernels == "torch"
    assert exact.traits.is_bit_exact
    tokens = random_tokens(40)
    torch.testing.assert_close(loaded.target.logits_of(tokens), exact.logits_of(tokens), atol=1e-4, rtol=1e-4)
    conditions = conditions_of(Engine(loaded), SamplingParams(), loaded.artifact, NO_ARTIFACT, concurrency=1)
    assert dict(conditions.flags)["exact"] == "False"


def test_what_runs_through_the_adapter_has_no_inexact_form(tmp_path: Path) -> None:
    TinyModel("olmo2", "olmo2", {"head_dim": None}).save(tmp_path)
    with pytest.raises(ForerunError, match="Olmo2ForCausalLM; leave out exact=False"):
        load_target(tmp_path, device="cpu", dtype="float32", exact=False)


def test_an_exact_target_is_not_renamed() -> None:
    with pytest.raises(ForerunError, match="pass it to load_target"):
        Engine(both()[0], exact=False)
    assert not Engine(both()[1], exact=False).target.traits.is_bit_exact
