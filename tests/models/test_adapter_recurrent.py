"""Recurrent hybrids behind the adapter: the state stands at the committed rows, and drafts never move it."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from forerun.errors import ForerunError
from forerun.models.base import AttentionGroup, PassInput
from forerun.models.kv_store import KVStore, RecurrentState
from support.adapted_models import RECURRENT, adapted, some_tokens
from support.passes import Chunk, batch_of

OWNER = 5


def _rows(tokens: list[int], start: int, num_committed: int, owner: int = OWNER) -> PassInput:
    """Rows of one owner from position ``start``, the first ``num_committed`` of them committed."""
    end = start + len(tokens)
    rows = tuple(range(len(tokens)))
    positions = torch.arange(start, end)
    group = AttentionGroup(rows, torch.arange(end))
    return PassInput(
        torch.tensor(tokens), positions, positions, (owner,) * len(tokens), (group,), rows, {owner: num_committed}
    )


def _same(first: RecurrentState, second: RecurrentState) -> bool:
    pairs = zip(first.tensors, second.tensors, strict=True)
    return first.num_tokens == second.num_tokens and all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("name", RECURRENT)
def test_accept_and_reject_patterns_equal_a_fresh_prefill(name: str) -> None:
    """Each round replays what was accepted since the border, then drafts with random right and wrong tokens."""
    target = adapted(name)
    tokens = some_tokens(24)
    expected = target.logits_of(tokens)
    random_draft = random.Random(3)
    store = target.new_store(40)
    target.forward(_rows(tokens[:6], 0, 6), store)
    border, newest = 6, 7  # rows below ``border`` are in the state, tokens below ``newest`` are committed
    found: dict[int, Tensor] = {}
    while newest < len(tokens):
        right = random_draft.randint(0, 4)
        draft = tokens[newest : newest + right] + some_tokens(random_draft.randint(0, 3), newest)
        logits = target.forward(_rows(tokens[border:newest] + draft, border, newest - border), store).logits
        assert store.states[OWNER].num_tokens == newest
        accepted = min(right, len(tokens) - newest - 1)
        for row in range(newest - border + accepted):
            found[border + row] = logits[row]
        border, newest = newest, newest + accepted + 1
    for position, row in found.items():
        assert torch.equal(row, expected[position]), f"position {position}"
    assert len(found) >= 12


@pytest.mark.parametrize("name", RECURRENT)
def test_drafts_do_not_move_the_state(name: str) -> None:
    target = adapted(name)
    tokens, drafts = some_tokens(21), some_tokens(9, 1)
    plain, drafted = target.new_store(40), target.new_store(40)
    target.forward(_rows(tokens, 0, len(tokens)), plain)
    target.forward(_rows(tokens + drafts, 0, len(tokens)), drafted)
    assert _same(plain.states[OWNER], drafted.states[OWNER])
    before = drafted.states[OWNER]
    copies = tuple(tensor.clone() for tensor in before.tensors)
    target.forward(_rows(drafts, len(tokens), 0), drafted)
    assert drafted.states[OWNER] is before
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(before.tensors, copies, strict=True))
    target.forward(_rows(drafts, len(tokens), 2), drafted)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(before.tensors, copies, strict=True))
    assert not _same(drafted.states[OWNER], before)


def test_position_zero_starts_afresh() -> None:
    target = adapted("qwen3_5")
    store = target.new_store(20)
    target.forward(_rows(some_tokens(9, 1), 0, 9), store)
    again = target.forward(_rows(some_tokens(9), 0, 9), store).logits
    assert torch.equal(again, target.logits_of(some_tokens(9)))
    assert store.states[OWNER].num_tokens == 9


def test_a_stored_state_is_a_checkpoint_for_another_owner() -> None:
    target = adapted("lfm2")
    tokens = some_tokens(20)
    store = target.new_store(20)
    target.forward(_rows(tokens[:12], 0, 12), store)
    store.states[OWNER + 1] = store.states[OWNER]
    hit = target.forward(_rows(tokens[12:], 12, 8, OWNER + 1), store).logits
    assert torch.equal(hit, target.logits_of(tokens)[12:])
    assert store.states[OWNER].num_tokens == 12


def test_a_tree_is_refused_by_name() -> None:
    target = adapted("qwen3_next")
    chain = batch_of([Chunk(some_tokens(4), 0, torch.arange(4))])
    tree = PassInput(
        chain.tokens,
        torch.tensor([0, 1, 2, 2]),
        chain.slots,
        chain.owners,
        (AttentionGroup((0, 1, 2), torch.arange(3)), AttentionGroup((3,), torch.tensor([0, 1, 3]))),
        chain.logit_rows,
        {0: 1},
    )
    with pytest.raises(ForerunError, match="tree"):
        target.forward(tree, target.new_store(4))


def test_a_pass_from_the_wrong_position_is_a_bug_that_shows() -> None:
    target = adapted("lfm2")
    store = KVStore([*target.new_store(20).keys], [*target.new_store(20).values])
    target.forward(_rows(some_tokens(9), 0, 9), store)
    with pytest.raises(AssertionError, match="stands at 9"):
        target.forward(_rows(some_tokens(2), 8, 2), store)
