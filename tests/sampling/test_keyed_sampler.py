"""One choice's tokens are a pure function of logits, position and output; greedy ties go to the lowest id."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from forerun.errors import ForerunError
from forerun.sampling.argmax import _first_by_torch
from forerun.sampling.keyed_sampler import KeyedSampler, argmax_lowest
from forerun.sampling.noise import KeyedNoise
from forerun.sampling.params import SamplingParams

VOCAB = 40
PROMPT = [1, 2, 3]


def sampler(vocab_size: int = VOCAB, seed: int = 11, choice: int = 0, **values: Any) -> KeyedSampler:
    return KeyedSampler(
        SamplingParams(**values), seed=seed, choice=choice, prompt=PROMPT, eos_token_ids=[0], vocab_size=vocab_size
    )


def random_logits(seed: int, size: int = VOCAB, spread: float = 3.0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * spread


PARAMS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.3, 0.8, 1.0, 2.5]),
        "top_k": st.sampled_from([0, 0, 1, 5]),
        "top_p": st.sampled_from([1.0, 0.9, 0.4]),
        "min_p": st.sampled_from([0.0, 0.05]),
        "repetition_penalty": st.sampled_from([1.0, 1.3]),
        "presence_penalty": st.sampled_from([0.0, 0.5]),
        "frequency_penalty": st.sampled_from([0.0, 0.5]),
        "logit_bias": st.sampled_from([(), ((4, 2.0), (5, float("-inf")))]),
        "min_tokens": st.sampled_from([0, 4]),
    }
)


@given(PARAMS, st.integers(0, 10**6), st.integers(0, 10**6), st.lists(st.integers(0, VOCAB - 1), max_size=6))
@settings(max_examples=100, deadline=None)
def test_token_is_the_argmax_of_log_law_plus_noise(
    values: dict[str, Any], seed: int, position: int, output: list[int]
) -> None:
    drawn = sampler(seed=seed, **values)
    logits = random_logits(seed)
    law = drawn.law(logits, output)
    assert law.sum().item() == pytest.approx(1.0, abs=1e-14)
    totals = law.log().numpy() + KeyedNoise(seed, 0).row(position, VOCAB)
    assert drawn.token(logits, position, output) == totals.argmax()
    assert drawn.draft_token(logits, position, output, is_keyed=True) == totals.argmax()


def test_position_choice_and_seed_each_change_the_draws() -> None:
    logits = random_logits(0, spread=0.5)
    draws = [
        [sampler(seed=seed, choice=choice, temperature=1.0).token(logits, position, []) for position in range(30)]
        for seed, choice in ((1, 0), (2, 0), (1, 1))
    ]
    assert len({tuple(row) for row in draws}) == 3
    assert all(len(set(row)) > 8 for row in draws)
    assert draws[0] == [sampler(seed=1, temperature=1.0).token(logits, position, []) for position in range(30)]


@pytest.mark.parametrize("values", [{"top_k": 6}, {"top_p": 0.7, "temperature": 1.5}, {"min_p": 0.1}], ids=str)
def test_draws_follow_the_law(values: dict[str, Any]) -> None:
    drawn = sampler(**{"temperature": 1.0, **values})
    logits = random_logits(3, spread=1.5)
    law = drawn.law(logits, []).numpy()
    counts = np.bincount([drawn.token(logits, position, []) for position in range(4000)], minlength=VOCAB)
    assert counts[law == 0].sum() == 0
    assert stats.chisquare(counts[law > 0], 4000 * law[law > 0]).pvalue > 1e-4


def test_greedy_takes_the_lowest_of_tied_tokens() -> None:
    logits = torch.zeros(VOCAB)
    logits[[9, 21, 33]] = 2.0
    greedy = sampler()
    assert greedy.is_plain_greedy
    assert greedy.token(logits, 5, []) == 9
    assert greedy.law(logits, []).tolist().index(1.0) == 9
    assert greedy.draft_tokens(logits, 5, [], count=4, is_keyed=True) == [9, 21, 33, 0]
    assert sampler(logit_bias=((9, -1.0),)).token(logits, 5, []) == 21
    assert sampler(temperature=1e-310).token(logits, 5, []) in (9, 21, 33)


def test_plain_greedy_means_the_raw_argmax() -> None:
    assert sampler(top_k=3, top_p=0.5, min_p=0.1, seed=5, logprobs=3).is_plain_greedy
    for values in (
        {"temperature": 0.1},
        {"repetition_penalty": 1.1},
        {"presence_penalty": 0.1},
        {"frequency_penalty": -0.1},
        {"logit_bias": ((1, 0.5),)},
        {"min_tokens": 1},
    ):
        assert not sampler(**values).is_plain_greedy, values
    masked = KeyedSampler(
        SamplingParams(),
        seed=0,
        choice=0,
        prompt=[],
        eos_token_ids=[],
        vocab_size=VOCAB,
        mask=lambda output: np.arange(VOCAB) == 30 + len(output),
    )
    assert not masked.is_plain_greedy
    assert [masked.token(random_logits(1), 0, [0] * n) for n in range(3)] == [30, 31, 32]


@given(st.lists(st.lists(st.sampled_from([-1.0, -0.0, 0.0, 1.5, float("-inf")]), min_size=70, max_size=70), max_size=4))
@settings(max_examples=40, deadline=None)
def test_argmax_lowest_is_exact_about_ties(rows: list[list[float]]) -> None:
    rows = [[*row, 0.0] for row in rows]
    expected = [row.index(max(row)) for row in rows]
    table = torch.tensor(rows).reshape(len(rows), 71)
    assert argmax_lowest(table) == argmax_lowest(table.numpy()) == expected
    assert _first_by_torch(table)[0] == expected  # what other devices use


def test_argmax_lowest_neither_rounds_nor_copes_with_nan() -> None:
    assert argmax_lowest(torch.tensor([[1.0, 1.0 + 1e-12]], dtype=torch.float64)) == [1]
    assert argmax_lowest(torch.tensor([[0.5, 3.0, 3.0]], dtype=torch.bfloat16)) == [1]
    for value in (float("nan"), float("inf")):
        rows = torch.tensor([[0.0, 1.0, 2.0], [5.0, value, 9.0]])
        assert _first_by_torch(rows)[0] == [2, 1]
        with pytest.raises(ForerunError, match="finite logits in row 1"):
            argmax_lowest(rows)
    with pytest.raises(ForerunError, match="every token banned"):
        argmax_lowest(torch.full((1, 4), float("-inf")))


def test_nan_logits_are_refused_everywhere() -> None:
    logits = random_logits(1)
    logits[4] = float("nan")
    for drawn in (sampler(), sampler(temperature=1.0), sampler(temperature=1.0, top_p=0.5)):
        for draw in (
            lambda drawn=drawn: drawn.token(logits, 3, []),
            lambda drawn=drawn: drawn.law(logits, []),
            lambda drawn=drawn: drawn.logprobs(logits, [], 3, 2),
            lambda drawn=drawn: drawn.draft_token(logits, 3, [], is_keyed=True),
        ):
            with pytest.raises(ForerunError, match="finite logits"):
                draw()


def test_logprobs_are_those_of_the_raw_row() -> None:
    logits = random_logits(2)
    logits[[5, 30]] = logits.max() + 1.0
    drawn = sampler(temperature=0.5, top_k=1, repetition_penalty=1.5, logprobs=2)
    expected = torch.log_softmax(logits.double(), -1)
    found = drawn.logprobs(logits, [7, 7], 1, 3)
    assert found.token == 1
    assert found.logprob == pytest.approx(expected[1].item(), abs=1e-12)
    assert [token for token, _ in found.top][:2] == [5, 30]
    assert [value for _, value in found.top] == pytest.approx(expected.sort(descending=True).values[:3].tolist())
    assert len(drawn.logprobs(logits, [], 1).top) == 2
    assert drawn.logprobs(logits, [], 1, 0).top == ()
    assert len(drawn.logprobs(logits, [], 1, 500).top) == VOCAB


def test_keyed_drafts_agree_at_least_as_often_as_theory_says() -> None:
    # Shared noise agrees with probability of at least (1 - TV) / (1 + TV); independent draws agree far less.
    target, drafter = random_logits(1, spread=1.0), random_logits(1, spread=1.0) + 0.4 * random_logits(2, spread=1.0)
    drawn = sampler(temperature=1.0)
    distance = 0.5 * (drawn.law(target, []) - drawn.law(drafter, [])).abs().sum().item()
    pairs = [
        (drawn.token(target, position, []), drawn.draft_token(drafter, position, [], is_keyed=True))
        for position in range(3000)
    ]
    agreement = sum(first == second for first, second in pairs) / len(pairs)
    assert agreement > (1 - distance) / (1 + distance) - 0.03
    greedy = drawn.draft_token(drafter, 1, [], is_keyed=False)
    assert greedy == drafter.argmax()
    assert sum(first == greedy for first, _ in pairs) / len(pairs) < agreement


def test_temperature_scale_sharpens_the_draft_only() -> None:
    drawn = sampler(temperature=1.0)
    logits = random_logits(4, spread=1.0)
    draws = {
        scale: [drawn.draft_token(logits, i, [], is_keyed=True, temperature_scale=scale) for i in range(300)]
        for scale in (0.0, 0.3, 1.0)
    }
    assert set(draws[0.0]) == {int(logits.argmax())}
    assert len(set(draws[0.3])) < len(set(draws[1.0]))
    assert draws[1.0] == [drawn.token(logits, i, []) for i in range(300)]


@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans(), st.sampled_from([0, 3]))
@settings(max_examples=40, deadline=None)
def test_draft_tokens_begin_with_the_draft_token(seed: int, count: int, is_keyed: bool, top_k: int) -> None:
    drawn = sampler(temperature=0.8, top_k=top_k)
    logits = random_logits(seed)
    drafts = drawn.draft_tokens(logits, 8, [], count=count, is_keyed=is_keyed)
    assert drafts[0] == drawn.draft_token(logits, 8, [], is_keyed=is_keyed)
    assert len(set(drafts)) == len(drafts) == (min(count, top_k) if top_k and is_keyed else count)


def test_a_row_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="40 logits"):
        sampler().token(torch.zeros(VOCAB + 1), 0, [])
