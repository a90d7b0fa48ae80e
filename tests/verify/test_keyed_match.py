"""Keyed match gives the target's own text for every noise, draft, tree and cut, and evaluates no row too many."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from exact_law import (
    Prefix,
    ToyModel,
    WalkedChance,
    assert_lossless,
    best_children,
    independent_children,
    outcomes,
    sampled_chain,
    tree,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.noise import KeyedNoise
from forerun.sampling.params import SamplingParams
from forerun.types import Draft
from forerun.verify.base import Law
from forerun.verify.chance import Chance
from forerun.verify.keyed_match import match
from forerun.verify.verdict import Verdict

TEXT = (4, 8, 15, 16, 23, 42)


class Teller:
    """Gives out a fixed text and remembers which rows were asked for."""

    def __init__(self, text: Prefix) -> None:
        self.text = text
        self.asked: list[tuple[int, Prefix]] = []

    def __call__(self, row: int, path: Prefix) -> int:
        self.asked.append((row, path))
        return self.text[len(path)] if path == self.text[: len(path)] else -1


@pytest.mark.parametrize("num_right", range(6))
def test_a_chain_lands_on_the_tokens_it_got_right(num_right: int) -> None:
    # 0: a drafter that is always wrong; 5: an oracle; between: half right.
    draft = Draft.chain([*TEXT[:num_right], *(99 for _ in range(5 - num_right))])
    teller = Teller(TEXT)
    verdict = match(draft, teller)
    assert verdict == Verdict(tuple(range(1, num_right + 1)), TEXT[: num_right + 1])
    assert verdict.num_accepted == num_right
    assert teller.asked == [(row, TEXT[:row]) for row in range(num_right + 1)]


def test_an_empty_draft_commits_one_token() -> None:
    assert match(Draft(), Teller(TEXT)) == Verdict((), (4,))


def test_a_tree_is_walked_down_one_path() -> None:
    #        0
    #    1:7   2:4
    #         3:9  4:8
    #              5:15  6:15
    draft = Draft((7, 4, 9, 8, 15, 15), (0, 0, 2, 2, 4, 4))
    teller = Teller(TEXT)
    assert match(draft, teller) == Verdict((2, 4, 5), (4, 8, 15, 16))
    assert teller.asked == [(0, ()), (2, (4,)), (4, (4, 8)), (5, (4, 8, 15))]


def test_nothing_is_asked_after_the_end_of_the_text() -> None:
    teller = Teller(TEXT)
    assert match(Draft.chain(TEXT[:5]), teller, lambda token: token == 15) == Verdict((1, 2, 3), (4, 8, 15))
    assert len(teller.asked) == 3
    assert match(Draft.chain([4, 9]), Teller(TEXT), lambda token: token == 8) == Verdict((1,), (4, 8))


@st.composite
def drafts(draw: st.DrawFn, vocab_size: int = 3, max_rows: int = 9) -> Draft:
    size = draw(st.integers(0, max_rows))
    parents = tuple(draw(st.integers(0, row)) for row in range(size))
    return Draft(tuple(draw(st.integers(0, vocab_size - 1)) for _ in range(size)), parents)


@given(drafts(), st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_any_tree_commits_the_text_and_the_longest_path(draft: Draft, seed: int) -> None:
    model = ToyModel(seed, 3)

    def next_token(row: int, path: Prefix) -> int:
        assert tuple(draft.tokens[step - 1] for step in draft.path_to(row)[1:]) == path
        return int(model.row(path).argmax())

    verdict = match(draft, next_token)
    text: Prefix = ()
    for _ in range(len(verdict.tokens)):
        text = (*text, int(model.row(text).argmax()))
    assert verdict.tokens == text
    assert draft.path_to(verdict.accepted_rows[-1] if verdict.accepted_rows else 0)[1:] == verdict.accepted_rows
    last = verdict.accepted_rows[-1] if verdict.accepted_rows else 0
    assert text[-1] not in [draft.tokens[child - 1] for child in draft.children()[last]]


# Enumerated: the noise at each position is one of a few equally likely rows, and every assignment is tried.
VOCAB = 3
LENGTH = 3
NOISE_ROWS = [KeyedNoise(seed).row(0, VOCAB) for seed in (3, 5, 8, 13)]
Assignment = tuple[int, ...]
Drafting = Callable[[Prefix, Assignment], Draft]


def keyed_token(model: ToyModel, prefix: Prefix, assignment: Assignment) -> int:
    return int((model.row(prefix).log().numpy() + NOISE_ROWS[assignment[len(prefix)]]).argmax())


def plain_text(model: ToyModel, assignment: Assignment) -> Prefix:
    text: Prefix = ()
    while len(text) < LENGTH:
        text = (*text, keyed_token(model, text, assignment))
    return text


def drafted_text(model: ToyModel, assignment: Assignment, drafting: Drafting) -> Prefix:
    text: Prefix = ()
    while len(text) < LENGTH:
        draft = drafting(text, assignment)
        room = LENGTH - len(text) - 1
        assert max(draft.depths()) <= room

        def next_token(row: int, path: Prefix, text: Prefix = text) -> int:
            return keyed_token(model, text + path, assignment)

        text += match(draft, next_token).tokens
    return text


DRAFTER = ToyModel(77, VOCAB)


def keyed_chain(text: Prefix, assignment: Assignment) -> Draft:
    tokens: Prefix = ()
    while len(text) + len(tokens) < LENGTH - 1:
        tokens = (*tokens, keyed_token(DRAFTER, text + tokens, assignment))
    return Draft.chain(tokens)


def cut_where_q_is_small(text: Prefix, assignment: Assignment) -> Draft:
    # The cut that biases every classical rule: it looks at the drafted token, and at the noise through it.
    draft = keyed_chain(text, assignment)
    kept = 0
    while kept < len(draft) and DRAFTER.row(text + draft.tokens[:kept])[draft.tokens[kept]] > 0.4:
        kept += 1
    return draft.truncated(kept)


def only_likely_to_fail(text: Prefix, assignment: Assignment) -> Draft:
    # Spiteful: drafts what the noise favours least.
    if len(text) >= LENGTH - 1:
        return Draft()
    return Draft.chain([int(NOISE_ROWS[assignment[len(text)]].argmin())])


def full_tree(text: Prefix, assignment: Assignment) -> Draft:
    if len(text) >= LENGTH - 1:
        return Draft()
    return tree(DRAFTER, (2,) * (LENGTH - 1 - len(text)), best_children)(WalkedChance([]))


@pytest.mark.parametrize("drafting", [keyed_chain, cut_where_q_is_small, only_likely_to_fail, full_tree])
def test_every_noise_gives_the_plain_text_whatever_drafts(drafting: Drafting) -> None:
    model = ToyModel(5, VOCAB)
    for assignment in itertools.product(range(len(NOISE_ROWS)), repeat=LENGTH):
        assert drafted_text(model, assignment, drafting) == plain_text(model, assignment)


def test_every_noise_gives_the_plain_text_for_every_chain() -> None:
    model = ToyModel(6, VOCAB)
    for tokens in itertools.product(range(VOCAB), repeat=LENGTH - 1):
        for assignment in itertools.product(range(len(NOISE_ROWS)), repeat=LENGTH):
            found = drafted_text(
                model, assignment, lambda text, _, tokens=tokens: Draft.chain(tokens[: LENGTH - 1 - len(text)])
            )
            assert found == plain_text(model, assignment)


def test_noise_that_the_round_renews_is_caught() -> None:
    # Drawing afresh after a mismatch instead of committing the token that the key gives is a different text.
    model = ToyModel(6, VOCAB)
    differing = 0
    for assignment in itertools.product(range(len(NOISE_ROWS)), repeat=LENGTH):
        plain = plain_text(model, assignment)
        renewed = tuple((row + 1) % len(NOISE_ROWS) for row in assignment)
        verdict = match(Draft.chain([0]), lambda row, path, a=assignment: keyed_token(model, path, a))
        wrong = verdict.tokens[:-1]
        wrong = (*wrong, keyed_token(model, wrong, renewed))
        differing += wrong != plain[: len(wrong)]
    assert differing > 0


def drawn_match(draft: Draft, law: Law, chance: Chance) -> Verdict:
    return match(draft, lambda row, path: chance.draw(law(row, path)))


def test_law_over_all_noise_is_the_targets() -> None:
    for seed in range(3):
        target, drafter = ToyModel(seed, 4), ToyModel(50 + seed, 4)
        assert_lossless(target, sampled_chain(drafter, 2), drawn_match, 3)
        assert_lossless(target, tree(drafter, (2, 1), independent_children), drawn_match, 3)
    assert sum(weight for _, weight in outcomes(lambda chance: chance.draw(target.row(())))) == pytest.approx(1.0)


@given(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0.0, 0.7, 1.0]),
    st.sampled_from([(), (("repetition_penalty", 1.5),), (("frequency_penalty", 1.0), ("top_p", 0.8))]),
    drafts(vocab_size=6, max_rows=6),
)
@settings(max_examples=60, deadline=None)
def test_the_shipped_sampler_gives_one_text_with_and_without_drafts(
    seed: int, temperature: float, values: tuple[tuple[str, float], ...], draft: Draft
) -> None:
    params = SamplingParams(temperature=temperature, **dict(values))  # type: ignore[arg-type]
    prompt = (1, 2)
    sampler = KeyedSampler(params, seed=seed, choice=0, prompt=prompt, eos_token_ids=[], vocab_size=6)

    def logits(text: Prefix) -> torch.Tensor:
        key = 1 + sum((token + 1) * 7**i for i, token in enumerate(text))
        return torch.randn(6, generator=torch.Generator().manual_seed(key)) * 2

    def token_after(text: Prefix) -> int:
        return sampler.token(logits(text), len(prompt) + len(text), text)

    plain: Prefix = ()
    while len(plain) < 10:
        plain = (*plain, token_after(plain))
    text: Prefix = ()
    while len(text) < 10:
        done = text
        text += match(draft, lambda row, path, done=done: token_after(done + path)).tokens
    assert text[:10] == plain
    # An oracle is accepted whole, history-dependent penalties included.
    assert match(Draft.chain(plain[:9]), lambda row, path: token_after(path)).num_accepted == 9


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=10), st.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_a_child_is_the_first_of_its_parents_children(rows: list[tuple[int, int]], token: int) -> None:
    parents = tuple(min(parent, index) for index, (parent, _) in enumerate(rows))
    draft = Draft(tuple(token for _, token in rows), parents)
    for row, children in enumerate(draft.children()):
        named = [child for child in children if draft.tokens[child - 1] == token]
        assert draft.child(row, token) == (named[0] if named else None)
