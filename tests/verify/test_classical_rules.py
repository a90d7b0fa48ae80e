"""The classical rules keep the target's law exactly, by enumeration of the shipped code; known wrong rules don't."""

from __future__ import annotations

import pytest
import torch
from exact_law import (
    Children,
    DraftProgram,
    FixedModel,
    Prefix,
    ToyModel,
    Verify,
    assert_lossless,
    best_children,
    distinct_children,
    expected_length,
    greedy_chain,
    independent_children,
    sampled_chain,
    text_law,
    tree,
)
from torch import Tensor

from forerun.types import Draft
from forerun.verify import block, keyed_match, rejection
from forerun.verify.base import Law
from forerun.verify.chance import Chance, UniformChance
from forerun.verify.tree import (
    DETERMINISTIC,
    DISTINCT,
    INDEPENDENT,
    verify_deterministic,
    verify_distinct,
    verify_independent,
)
from forerun.verify.verdict import Verdict

CHAIN_RULES: dict[str, Verify] = {
    "rejection": rejection.verify,
    "block": block.verify,
    "tree of independent children": verify_independent,
    "tree of distinct children": verify_distinct,
}
DISAGREES = "the law is off"


def sampled_match(draft: Draft, law: Law, chance: Chance) -> Verdict:
    """Keyed match with the target's draws left to chance: the law that the keyed sampler has over random seeds."""
    return keyed_match.match(draft, lambda row, path: chance.draw(law(row, path)))


@pytest.mark.parametrize("rule", CHAIN_RULES)
@pytest.mark.parametrize(
    ("vocab_size", "length"),
    [(2, 3), (3, 1), (3, 2), (4, 1), (4, 2), (3, 3), (4, 3)],
)
def test_sampled_chains(rule: str, vocab_size: int, length: int) -> None:
    for seed in range(2):
        target, drafter = ToyModel(seed, vocab_size), ToyModel(100 + seed, vocab_size)
        assert_lossless(target, sampled_chain(drafter, length), CHAIN_RULES[rule], length + 1)


@pytest.mark.parametrize(
    "verify", [rejection.verify, block.verify, verify_deterministic, verify_independent, sampled_match]
)
@pytest.mark.parametrize("length", [1, 3])
def test_deterministic_chains(verify: Verify, length: int) -> None:
    for seed in range(4):
        target, drafter = ToyModel(seed, 4), ToyModel(100 + seed, 4)
        assert_lossless(target, greedy_chain(drafter, length), verify, length + 1)


TREES: dict[str, tuple[Verify, Children]] = {
    "deterministic": (verify_deterministic, best_children),
    "keyed match": (sampled_match, best_children),
    "keyed match, independent": (sampled_match, independent_children),
    "independent": (verify_independent, independent_children),
    "without replacement": (verify_distinct, distinct_children),
}


SLOW_TREES = [pytest.param(vocab_size, (2, 2), marks=pytest.mark.slow) for vocab_size in (3, 4)]


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(
    ("vocab_size", "widths"),
    [
        (4, (2,)),
        (4, (3,)),
        (3, (2, 1)),
        (3, (1, 2)),
        (2, (2, 1, 1)),
        (3, (2, 1, 1)),
        pytest.param(3, (2, 2), marks=pytest.mark.slow),
        pytest.param(4, (2, 2), marks=pytest.mark.slow),
    ],
)
def test_trees(name: str, vocab_size: int, widths: tuple[int, ...]) -> None:
    verify, children = TREES[name]
    for seed in range(2):
        target, drafter = ToyModel(seed, vocab_size), ToyModel(100 + seed, vocab_size)
        assert_lossless(target, tree(drafter, widths, children), verify, len(widths) + 1)


@pytest.mark.parametrize("verify", CHAIN_RULES.values())
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.25, 0.25], [0.5, 0.25, 0.25]),  # residual mass and S are exactly 0, w stays 1
        ([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([1.0, 0.0, 0.0], [0.5, 0.25, 0.25]),
        ([0.0, 0.5, 0.5], [1.0, 0.0, 0.0]),  # disjoint: w = 0, nothing accepted
        ([0.1, 0.2, 0.7], [0.1, 0.2, 0.7000000000000001]),
        ([1e-300, 0.5, 0.5], [0.5, 0.5, 0.0]),
    ],
)
def test_borders(verify: Verify, p: list[float], q: list[float]) -> None:
    target, drafter = FixedModel(p), FixedModel(q)
    assert_lossless(target, sampled_chain(drafter, 2), verify, 3)
    if p == q:
        assert expected_length(target, sampled_chain(drafter, 2), verify) == pytest.approx(3.0, abs=1e-12)


def test_block_borders_one_by_one() -> None:
    row, other = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    assert block.keep_probability(1.0, row, row) == 0.0
    assert block.keep_probability(1.0, row, other) == 1.0
    assert block.keep_probability(0.0, row, other) == 0.0
    assert torch.equal(block.residual(1.0, row, row), row)
    assert torch.equal(rejection.residual(row, row), row)
    assert block.prefix_weights([row, other], [other, row], [1, 1]) == [1.0, pytest.approx(2 / 3), 1.0]


@pytest.mark.parametrize("verify", CHAIN_RULES.values())
def test_lengths_that_are_chosen_without_a_look_at_the_draft(verify: Verify) -> None:
    target, drafter = ToyModel(0, 3), ToyModel(100, 3)
    unsure = sampled_chain(drafter, 3, stops_before=lambda q: float(q.max()) < 0.6)
    assert_lossless(target, unsure, verify, 4)

    def keeps_the_doubtful_token_and_stops(chance: Chance) -> Draft:
        draft = sampled_chain(drafter, 2)(chance)
        first = float(drafter.row(())[draft.tokens[0]])
        return draft.truncated(1) if first < 0.3 else draft

    assert_lossless(target, keeps_the_doubtful_token_and_stops, verify, 3)


def drop_doubtful(drafter: ToyModel, threshold: float) -> DraftProgram:
    """The known wrong rule: a sampled token is dropped because its own q is small."""

    def draft(chance: Chance) -> Draft:
        sampled = sampled_chain(drafter, 1)(chance)
        return Draft() if float(drafter.row(())[sampled.tokens[0]]) < threshold else sampled

    return draft


@pytest.mark.parametrize("verify", CHAIN_RULES.values())
def test_dropping_a_sampled_token_for_its_small_q_is_caught(verify: Verify) -> None:
    target, drafter = FixedModel([0.5, 0.5]), FixedModel([0.8, 0.2])
    wrong = drop_doubtful(drafter, 0.3)
    assert text_law(target, wrong, verify, 1) == {(0,): pytest.approx(0.6), (1,): pytest.approx(0.4)}
    with pytest.raises(AssertionError, match=DISAGREES):
        assert_lossless(target, wrong, verify, 2)
    # Keyed match may be cut by whatever rule: the drafts don't decide the text.
    assert_lossless(target, wrong, sampled_match, 2)


@pytest.mark.parametrize("verify", CHAIN_RULES.values())
def test_softmax_q_for_an_argmax_draft_is_caught(verify: Verify) -> None:
    target, drafter = FixedModel([0.5, 0.3, 0.2]), FixedModel([0.6, 0.3, 0.1])

    def wrong(chance: Chance) -> Draft:
        draft = greedy_chain(drafter, 1)(chance)
        return Draft(draft.tokens, draft.parents, q=drafter.row(())[None])

    with pytest.raises(AssertionError, match=DISAGREES):
        assert_lossless(target, wrong, verify, 2)


def sample_per_path(draft: Draft, law: Law, chance: Chance) -> Verdict:
    """The known wrong tree rule of REST and Medusa's nucleus mode: every path draws its own tokens at shared nodes."""
    leaves = [row for row, below in enumerate(draft.children()) if not below]
    best: tuple[int, ...] = ()
    for leaf in leaves:
        rows = draft.path_to(leaf)[1:]
        kept: Prefix = ()
        for row in rows:
            if chance.draw(law(0, kept)) != draft.tokens[row - 1]:
                break
            kept = (*kept, draft.tokens[row - 1])
        best = max(best, rows[: len(kept)], key=len)
    path = tuple(draft.tokens[row - 1] for row in best)
    return Verdict(best, (*path, chance.draw(law(0, path))))


def test_one_sample_per_tree_path_is_caught() -> None:
    target, drafter = FixedModel([0.5, 0.3, 0.2]), FixedModel([0.2, 0.3, 0.5])
    with pytest.raises(AssertionError, match=DISAGREES):
        assert_lossless(target, tree(drafter, (2,), best_children), sample_per_path, 2)
    with pytest.raises(AssertionError, match=DISAGREES):
        assert_lossless(target, tree(drafter, (1, 2), best_children), sample_per_path, 3)
    # p(token 2) = .0115 becomes .0229 with a single path: accepted by its own draw, or drawn afresh after it failed.
    p = [0.395, 0.592, 0.0115, 0.0015]
    law = text_law(FixedModel(p), lambda chance: Draft.chain([2]), sample_per_path, 1)
    assert law[2,] == pytest.approx(0.0229, abs=1e-4)


def test_the_wrong_tree_rule_for_the_children_is_caught() -> None:
    target, drafter = ToyModel(3, 4, share_of_zeros=0.0), ToyModel(103, 4, share_of_zeros=0.0)
    for verify, children in (
        (verify_independent, distinct_children),
        (verify_distinct, independent_children),
        (verify_independent, best_children),
        (verify_deterministic, independent_children),
    ):
        program = tree(drafter, (2,), children)
        if verify is verify_deterministic:  # right for any children: they don't enter the law
            assert_lossless(target, program, verify, 2)
        else:
            with pytest.raises((AssertionError, ValueError), match=f"{DISAGREES}|q must be the row"):
                assert_lossless(target, program, verify, 2)


def test_acceptance_of_one_token_is_one_less_the_total_variation() -> None:
    for seed in range(5):
        target, drafter = ToyModel(seed, 4), ToyModel(100 + seed, 4)
        overlap = float(torch.minimum(target.row(()), drafter.row(())).sum())
        for verify in (rejection.verify, block.verify):
            assert expected_length(target, sampled_chain(drafter, 1), verify) == pytest.approx(1 + overlap, abs=1e-12)


def test_block_keeps_at_least_as_many_tokens_as_rejection() -> None:
    gains = []
    for seed in range(5):
        target, drafter = ToyModel(seed, 3), ToyModel(100 + seed, 3)
        program = sampled_chain(drafter, 3)
        gains.append(
            expected_length(target, program, block.verify) - expected_length(target, program, rejection.verify)
        )
    assert min(gains) > -1e-12
    assert max(gains) > 1e-3


def test_one_hot_drafts_are_kept_alike_by_every_rule() -> None:
    target, drafter = ToyModel(1, 4), ToyModel(101, 4)
    program = greedy_chain(drafter, 3)
    lengths = [
        expected_length(target, program, verify)
        for verify in (rejection.verify, block.verify, verify_deterministic, sampled_match)
    ]
    assert lengths == pytest.approx([lengths[0]] * 4, abs=1e-12)


def test_greedy_rows_make_every_rule_a_match() -> None:
    def law(row: int, path: Prefix) -> Tensor:
        return torch.nn.functional.one_hot(torch.tensor((len(path) + 1) % 3), 3).double()

    chance = UniformChance(lambda: 0.5)
    for verify in (rejection.verify, block.verify, verify_deterministic):
        assert verify(Draft.chain([1, 2, 2]), law, chance) == Verdict((1, 2), (1, 2, 0))


def test_a_token_that_q_cannot_have_given_is_refused() -> None:
    q = torch.tensor([[0.0, 1.0]])
    row = torch.tensor([0.5, 0.5], dtype=torch.float64)
    for verify in CHAIN_RULES.values():
        with pytest.raises(ValueError, match="q must be the row"):
            verify(Draft((0,), (0,), q=q), lambda row_, path: row, UniformChance(lambda: 0.5))


def test_chain_rules_refuse_branches() -> None:
    row = torch.tensor([0.5, 0.5], dtype=torch.float64)
    for verify in (rejection.verify, block.verify):
        with pytest.raises(ValueError, match="verifies chains"):
            verify(Draft((0, 1), (0, 0)), lambda row_, path: row, UniformChance(lambda: 0.5))


def test_declarations() -> None:
    assert not keyed_match.RULE.needs_non_anticipating_lengths
    assert not DETERMINISTIC.needs_non_anticipating_lengths
    for rule in (rejection.RULE, block.RULE, INDEPENDENT, DISTINCT):
        assert rule.needs_non_anticipating_lengths
        assert rule.needs_q


@pytest.mark.parametrize("row", [[0.25, 0.0, 0.5, 0.25], [0.0, 1.0, 0.0], [0.125] * 8])
def test_uniforms_become_draws_of_the_exact_law(row: list[float]) -> None:
    grid = 64
    uniforms = iter([step / grid for step in range(grid)] * 2)
    chance = UniformChance(lambda: next(uniforms))
    law = torch.tensor(row, dtype=torch.float64)
    draws = [chance.draw(law) for _ in range(grid)]
    assert [draws.count(index) / grid for index in range(len(row))] == row
    assert sum(chance.happens(row[0]) for _ in range(grid)) / grid == row[0]


def test_uniforms_at_the_borders() -> None:
    almost_one = UniformChance(lambda: 1.0 - 2.0**-53)
    zero = UniformChance(lambda: 0.0)
    row = torch.tensor([0.0, 0.1, 0.2, 0.7, 0.0], dtype=torch.float64) * 0.9
    assert almost_one.draw(row) == 3
    assert zero.draw(row) == 1
    assert not zero.happens(0.0)
    assert almost_one.happens(1.0)
