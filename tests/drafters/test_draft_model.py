"""A second model drafting: what it drafts, what it trusts, what it gives back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from forerun.drafters.base import DraftLimit, DraftRequest, TargetView
from forerun.drafters.draft_model.config import DraftModelConfig
from forerun.drafters.draft_model.drafter import DraftModelDrafter
from forerun.drafters.draft_model.growing_draft import GrowingDraft
from forerun.drafters.draft_model.state import DraftModelState
from forerun.drafters.draft_model.vocabulary import over_vocabulary
from forerun.drafters.method import BuildContext, DraftModel
from forerun.drafters.registry import build
from forerun.errors import ForerunError
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.types import Draft
from support.toy_target import ToyTarget

VOCAB = 13


def a_drafter(model: ToyTarget, *, num_slots: int = 4096, vocab_size: int = VOCAB, **knobs: Any) -> DraftModelDrafter:
    return DraftModelDrafter(DraftModelConfig(**knobs), model, vocab_size=vocab_size, num_slots=num_slots)


def a_request(
    temperature: float = 0.0, seed: int = 0, prompt: Sequence[int] = (1, 2, 3), vocab_size: int = VOCAB
) -> DraftRequest:
    params = SamplingParams(temperature=temperature)
    sampler = KeyedSampler(params, seed=seed, choice=0, prompt=prompt, eos_token_ids=(), vocab_size=vocab_size)
    return DraftRequest(0, tuple(prompt), sampler)


def observed(drafter: DraftModelDrafter, request: DraftRequest, tokens: Sequence[int] = ()) -> DraftModelState:
    state = drafter.begin(request)
    drafter.observe(state, [*request.prompt, *tokens], None)
    return state


def chain_of(model: ToyTarget, request: DraftRequest, tokens: Sequence[int], num_tokens: int) -> list[int]:
    """What the model itself would say next, from an empty cache each time."""
    output = list(tokens)
    for _ in range(num_tokens):
        text = [*request.prompt, *output]
        output.append(request.sampler.token(model.logits_of(text)[-1], len(text), output))
    return output[len(tokens) :]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("is_recurrent", [False, True])
def test_rounds_of_any_acceptance_draft_what_a_fresh_model_says(temperature: float, is_recurrent: bool) -> None:
    rng = random.Random(3)
    model = ToyTarget(VOCAB, order=0, is_recurrent=is_recurrent)
    drafter = a_drafter(model)
    requests = [a_request(temperature, seed, [rng.randrange(VOCAB) for _ in range(1 + 9 * seed)]) for seed in range(3)]
    states = [observed(drafter, request) for request in requests]
    outputs: list[list[int]] = [[], [], []]
    for _ in range(12):
        limits = [DraftLimit(n, n) for n in (rng.randrange(5) for _ in states)]
        num_passes = model.num_passes
        drafts = drafter.propose(states, limits)
        assert model.num_passes - num_passes == max(limit.num_tokens for limit in limits)
        for request, state, output, limit, draft in zip(requests, states, outputs, limits, drafts, strict=True):
            assert list(draft.tokens) == chain_of(ToyTarget(VOCAB, order=0), request, output, limit.num_tokens)
            accepted = list(draft.tokens[: rng.randrange(len(draft) + 1)])
            committed = [*accepted, rng.randrange(VOCAB)]
            output += committed
            drafter.observe(state, committed, None)
    for state in states:
        drafter.end(state)
    assert drafter.cache.pool.num_held == 0
    assert not drafter.cache.store.states


def test_accepted_drafts_are_not_computed_again() -> None:
    model = ToyTarget(VOCAB, order=0)
    drafter = a_drafter(model)
    state = observed(drafter, a_request())
    draft = drafter.propose([state], [DraftLimit(4, 4)])[0]
    drafter.observe(state, [*draft.tokens, 5], None)
    drafter.propose([state], [DraftLimit(1, 1)])
    assert model.last_batch is not None
    assert model.last_batch.tokens.tolist() == [draft.tokens[-1], 5]
    drafter.observe(state, [9, 9], None)
    drafter.propose([state], [DraftLimit(1, 1)])
    assert model.last_batch.tokens.tolist() == [9, 9]


def test_a_long_prompt_is_caught_up_with_in_bounded_passes() -> None:
    rows: list[int] = []

    class Watched(ToyTarget):
        def forward(self, *args: Any) -> Any:
            rows.append(len(args[0].tokens))
            return super().forward(*args)

    rng = random.Random(0)
    drafter = a_drafter(Watched(VOCAB, order=0), max_pass_rows=16)
    prompts = [[rng.randrange(VOCAB) for _ in range(length)] for length in (70, 5, 23)]
    requests = [a_request(prompt=prompt) for prompt in prompts]
    drafts = drafter.propose([observed(drafter, request) for request in requests], [DraftLimit(3, 3)] * 3)
    assert max(rows) <= 16
    for request, draft in zip(requests, drafts, strict=True):
        assert list(draft.tokens) == chain_of(ToyTarget(VOCAB, order=0), request, [], 3)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("draft_sampling", ["keyed", "greedy"])
def test_a_tree_holds_the_best_children_of_each_row(temperature: float, draft_sampling: Any) -> None:
    model = ToyTarget(VOCAB, order=0)
    drafter = a_drafter(model, branching=3, draft_sampling=draft_sampling)
    request = a_request(temperature)
    limit = DraftLimit(4, 9, is_tree=True)
    draft = drafter.propose([observed(drafter, request)], [limit])[0]
    assert len(draft) == 9
    assert max(draft.depths()) <= 4
    assert not draft.is_chain
    is_keyed = draft_sampling == "keyed"
    for row, children in enumerate(draft.children()):
        path = [draft.tokens[ancestor - 1] for ancestor in draft.path_to(row)[1:]]
        text = [*request.prompt, *path]
        best = request.sampler.draft_tokens(
            ToyTarget(VOCAB, order=0).logits_of(text)[-1], len(text), path, count=3, is_keyed=is_keyed
        )
        assert [draft.tokens[child - 1] for child in children] == best[: len(children)]


def test_a_tree_of_one_child_a_row_is_the_chain() -> None:
    request = a_request(0.8)
    drafter = a_drafter(ToyTarget(VOCAB, order=0), branching=1)
    tree = drafter.propose([observed(drafter, request)], [DraftLimit(5, 9, is_tree=True)])[0]
    assert tree == drafter.propose([observed(drafter, request)], [DraftLimit(5, 5)])[0]


def test_best_rows_hold_their_parents_and_equal_ones_keep_their_order() -> None:
    growing = GrowingDraft(num_rows=4)
    growing.grow([(0, [(10, -0.1), (11, -2.0)])])
    assert growing.frontier(2) == [1, 2]
    growing.grow([(1, [(20, -0.1), (21, -0.1)]), (2, [(22, 0.0), (23, -9.0)])])
    assert growing.frontier(9) == [3, 4], "row 5 is the fifth best and 6 worse"
    growing.grow([(3, [(30, -5.0)]), (4, [(31, -0.3)])])
    draft = growing.draft("x")
    assert draft == Draft((10, 20, 21, 31), (0, 1, 1, 3), source="x")


def test_a_sharper_drafter_is_a_knob_of_its_own() -> None:
    """At temperature factor 0 keyed drafts are greedy ones; at 1 they follow the noise."""
    request = a_request(1.5)
    limit = [DraftLimit(6, 6)]
    drafts = {}
    for name, knobs in {"greedy": {"draft_sampling": "greedy"}, "cold": {"temperature": 0.0}, "keyed": {}}.items():
        drafter = a_drafter(ToyTarget(VOCAB, order=0), **knobs)
        drafts[name] = drafter.propose([observed(drafter, request)], limit)[0].tokens
    assert drafts["greedy"] == drafts["cold"] != drafts["keyed"]


def test_a_full_pool_means_no_draft_and_no_leak() -> None:
    drafter = a_drafter(ToyTarget(VOCAB, order=0), num_slots=32)
    short, long = a_request(prompt=[1] * 10), a_request(prompt=[2] * 40)
    states = [observed(drafter, short), observed(drafter, long)]
    drafts = drafter.propose(states, [DraftLimit(3, 3)] * 2)
    assert [len(draft) for draft in drafts] == [3, 0]
    for state in states:
        drafter.end(state)
    assert drafter.cache.pool.num_held == 0


def test_no_draft_beyond_the_models_context_or_vocabulary() -> None:
    drafter = a_drafter(ToyTarget(VOCAB, order=0, max_context=12), vocab_size=VOCAB + 3)
    request = a_request(prompt=[1] * 10, vocab_size=VOCAB + 3)
    state = observed(drafter, request)
    assert len(drafter.propose([state], [DraftLimit(5, 5)])[0]) == 2
    drafter.observe(state, [1, 2, 3], None)
    assert drafter.propose([state], [DraftLimit(5, 5)]) == [Draft()]
    unreadable = observed(drafter, a_request(vocab_size=VOCAB + 3), [VOCAB + 1])
    assert drafter.propose([unreadable], [DraftLimit(5, 5)]) == [Draft()]


def test_rows_are_cut_or_padded_to_the_targets_vocabulary() -> None:
    rows = torch.arange(6.0).reshape(2, 3)
    assert over_vocabulary(rows, 2).tolist() == [[0.0, 1.0], [3.0, 4.0]]
    assert over_vocabulary(rows, 4).tolist() == [[0.0, 1.0, 2.0, -torch.inf], [3.0, 4.0, 5.0, -torch.inf]]


class Words:
    """A tokenizer as far as vocabularies are compared."""

    def __init__(self, label: str, vocabulary: Sequence[str]) -> None:
        self.label = label
        self.vocabulary = tuple(vocabulary)


def built(target_words: Any, drafter_words: Any, drafter_size: int = VOCAB) -> DraftModelDrafter:
    context = BuildContext(
        TargetView(ToyTarget(VOCAB)), target_words, DraftModel(ToyTarget(drafter_size), drafter_words), 64
    )
    drafter = build("draft_model", {}, context)
    assert isinstance(drafter, DraftModelDrafter)
    return drafter


def test_another_tokenizer_is_refused_by_name_and_a_padded_head_is_not() -> None:
    words = [str(index) for index in range(VOCAB)]
    built(Words("big", words), Words("small", words), drafter_size=VOCAB + 3)
    with pytest.raises(ForerunError, match="id 5 is '5' in big and 'five' in small"):
        built(Words("big", words), Words("small", [*words[:5], "five", *words[6:]]))
    with pytest.raises(ForerunError, match="no tokenizer to compare"):
        built(None, None, drafter_size=VOCAB + 3)
    with pytest.raises(ForerunError, match="a draft model for method draft_model"):
        build("draft_model", {}, BuildContext(TargetView(ToyTarget(VOCAB))))


def test_trees_of_a_recurrent_model_are_refused_by_name() -> None:
    drafter = a_drafter(ToyTarget(VOCAB, is_recurrent=True))
    with pytest.raises(ForerunError, match="chains from toy"):
        drafter.propose([observed(drafter, a_request())], [DraftLimit(3, 5, is_tree=True)])


@pytest.mark.parametrize(
    "knobs", [{"temperature": -1.0}, {"temperature": float("nan")}, {"branching": 0}, {"draft_sampling": "q"}]
)
def test_wrong_knobs_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(ForerunError, match="expected"):
        DraftModelConfig(**knobs)
