"""States read out of adapted models, their embeddings and their head."""

from __future__ import annotations

import pytest
import torch

from forerun.errors import ForerunError
from forerun.types import Tap, TapKind
from support.adapted_models import adapted, build, some_tokens
from support.passes import Chunk, batch_of

BEFORE, AFTER = Tap(TapKind.BEFORE_FINAL_NORM), Tap(TapKind.AFTER_FINAL_NORM)
NUM_TOKENS = 21


@pytest.mark.parametrize("name", ["olmo2", "granite", "gemma2", "gpt2", "gemma4", "qwen3_next", "lfm2"])
def test_taps_equal_the_librarys_hidden_states(name: str) -> None:
    tokens = some_tokens(NUM_TOKENS)
    with torch.no_grad():
        expected = build(name)(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    target = adapted(name)
    blocks = [Tap.of_block(index) for index in range(target.traits.num_layers)]
    batch = batch_of([Chunk(tokens, 0, torch.arange(NUM_TOKENS))])
    out = target.forward(batch, target.new_store(NUM_TOKENS), frozenset([*blocks, BEFORE, AFTER]))
    # The library's tuple begins with the embeddings, and its last entry is behind the final norm.
    for index, tap in enumerate(blocks[:-1]):
        torch.testing.assert_close(out.taps[tap], expected[index + 1][0], atol=1e-4, rtol=1e-4)
        assert not torch.allclose(out.taps[tap], expected[index][0], atol=1e-2), "one block earlier"
    assert torch.equal(out.taps[blocks[-1]], out.taps[BEFORE])
    torch.testing.assert_close(out.taps[AFTER], expected[-1][0], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(out.taps[BEFORE], out.taps[AFTER], atol=1e-2)
    assert torch.equal(target.head(out.taps[AFTER]), out.logits)


@pytest.mark.parametrize("name", ["olmo2", "granite", "gemma2", "qwen3_5"])
def test_embeddings_are_what_the_first_block_sees(name: str) -> None:
    tokens = some_tokens(NUM_TOKENS)
    with torch.no_grad():
        expected = build(name)(torch.tensor([tokens]), output_hidden_states=True).hidden_states[0][0]
    target = adapted(name)
    assert torch.equal(target.embed(torch.tensor(tokens)), expected)
    assert target.embed(torch.tensor([], dtype=torch.int64)).shape == (0, 64)


def test_only_wanted_rows_have_logits_and_no_taps_cost_nothing() -> None:
    target = adapted("olmo2")
    batch = batch_of([Chunk(some_tokens(NUM_TOKENS), 0, torch.arange(NUM_TOKENS))])
    few = type(batch)(
        batch.tokens, batch.positions, batch.slots, batch.owners, batch.groups, (3, 18), batch.num_committed
    )
    out = target.forward(few, target.new_store(NUM_TOKENS))
    assert torch.equal(out.logits, target.logits_of(some_tokens(NUM_TOKENS))[[3, 18]])
    assert out.taps == {}


@pytest.mark.parametrize(
    ("name", "tap"), [("gemma3n", Tap.of_block(1)), ("olmo2", Tap.of_block(3)), ("olmo2", Tap.of_block(-1))]
)
def test_taps_that_a_model_lacks_are_refused(name: str, tap: Tap) -> None:
    target = adapted(name)
    batch = batch_of([Chunk(some_tokens(4), 0, torch.arange(4))])
    with pytest.raises(ForerunError, match=f"block {tap.block}"):
        target.forward(batch, target.new_store(4), frozenset({tap}))


@pytest.mark.parametrize("name", ["gpt2", "gemma3n"])
def test_embeddings_that_are_not_one_vector_a_token_are_refused(name: str) -> None:
    with pytest.raises(ForerunError, match="one embedding per token"):
        adapted(name).embed(torch.tensor([5, 6]))
