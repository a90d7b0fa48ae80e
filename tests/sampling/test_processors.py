"""Every processor's row equals that of transformers; ties and order are ours and stated."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as hf

from forerun.errors import ForerunError
from forerun.sampling.cuts import top_k, top_p
from forerun.sampling.params import SamplingParams
from forerun.sampling.processors import Processors

VOCAB = 50
EOS = 7
PROMPT = [3, 3, 9, 40]
OUTPUT = [9, 11, 11, 11, 20]
TOLERANCE = 1e-6

ALONE = {
    "temperature": ({"temperature": 0.7}, lambda: [hf.TemperatureLogitsWarper(0.7)]),
    "hot": ({"temperature": 3.0}, lambda: [hf.TemperatureLogitsWarper(3.0)]),
    "top_k 1": ({"top_k": 1}, lambda: [hf.TopKLogitsWarper(1)]),
    "top_k": ({"top_k": 12}, lambda: [hf.TopKLogitsWarper(12)]),
    "top_k beyond": ({"top_k": 500}, lambda: [hf.TopKLogitsWarper(500)]),
    "top_p": ({"top_p": 0.83}, lambda: [hf.TopPLogitsWarper(0.83)]),
    "top_p small": ({"top_p": 0.001}, lambda: [hf.TopPLogitsWarper(0.001)]),
    "top_p near 1": ({"top_p": 0.9999}, lambda: [hf.TopPLogitsWarper(0.9999)]),
    "min_p": ({"min_p": 0.07}, lambda: [hf.MinPLogitsWarper(0.07)]),
    "min_p 1": ({"min_p": 1.0}, lambda: [hf.MinPLogitsWarper(1.0)]),
    "repetition": ({"repetition_penalty": 1.4}, lambda: [hf.RepetitionPenaltyLogitsProcessor(1.4)]),
    "reward": ({"repetition_penalty": 0.6}, lambda: [hf.RepetitionPenaltyLogitsProcessor(0.6)]),
    "min_tokens": ({"min_tokens": 6}, lambda: [hf.MinNewTokensLengthLogitsProcessor(len(PROMPT), 6, EOS)]),
    "min_tokens over": ({"min_tokens": 5}, lambda: [hf.MinNewTokensLengthLogitsProcessor(len(PROMPT), 5, EOS)]),
    "bias": (
        {"logit_bias": ((4, 2.5), (11, -3.0), (12, float("-inf")))},
        lambda: [hf.SequenceBiasLogitsProcessor([[[4], 2.5], [[11], -3.0], [[12], float("-inf")]])],
    ),
}


def reference(processors: Sequence[hf.LogitsProcessor], logits: torch.Tensor) -> np.ndarray:
    """Log-probabilities after transformers' processors, in the order given."""
    history = torch.tensor([PROMPT + OUTPUT])
    rows = logits[None]
    for processor in processors:
        rows = processor(history, rows)
    return torch.log_softmax(rows[0].double(), -1).numpy()


def ours(params: SamplingParams, logits: torch.Tensor, mask: np.ndarray | None = None) -> np.ndarray:
    processors = Processors(
        params,
        prompt=PROMPT,
        eos_token_ids=[EOS],
        vocab_size=len(logits),
        mask=None if mask is None else lambda output: mask,
    )
    found = processors.candidates(processors.row(logits, OUTPUT), params.temperature)
    assert found.scores.max() == 0.0
    row = np.full(len(logits), -np.inf)
    row[found.ids] = found.scores - np.log(np.exp(found.scores).sum())
    return row


def random_logits(seed: int, size: int = VOCAB, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return (torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ALONE)
def test_each_processor_equals_transformers(name: str, dtype: torch.dtype) -> None:
    values, make = ALONE[name]
    for seed in range(25):
        logits = random_logits(seed, dtype=dtype)
        found = ours(SamplingParams(**{"temperature": 1.0, **values}), logits)
        # transformers' own rounding in float32 is up to 1e-6 of a logit of 20, so it works on the same row in float64.
        np.testing.assert_allclose(found, reference(make(), logits.double()), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", [5000, pytest.param(151_936, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["top_k", "top_p", "top_p near 1", "top_p small", "min_p"])
def test_cuts_of_a_large_vocabulary_equal_transformers(name: str, size: int) -> None:
    values, make = ALONE[name]
    for seed in range(3):
        logits = random_logits(seed, size)
        found = ours(SamplingParams(temperature=1.0, **values), logits)
        np.testing.assert_allclose(found, reference(make(), logits), rtol=0, atol=TOLERANCE)


@given(
    st.integers(0, 10**6),
    st.floats(0.2, 3.0),
    st.integers(0, 60),
    st.floats(0.05, 0.999),
    st.floats(0.0, 0.5),
    st.floats(0.5, 2.0),
    st.integers(0, 10),
)
@settings(max_examples=80, deadline=None)
def test_the_whole_pipeline_equals_transformers_in_order(
    seed: int, temperature: float, k: int, p: float, min_p: float, repetition: float, min_tokens: int
) -> None:
    params = SamplingParams(
        temperature=temperature,
        top_k=k,
        top_p=p,
        min_p=min_p,
        repetition_penalty=repetition,
        logit_bias=((4, 2.5), (11, -3.0)),
        min_tokens=min_tokens,
    )
    chain: list[hf.LogitsProcessor] = [
        hf.RepetitionPenaltyLogitsProcessor(repetition),
        hf.SequenceBiasLogitsProcessor([[[4], 2.5], [[11], -3.0]]),
        hf.MinNewTokensLengthLogitsProcessor(len(PROMPT), min_tokens, EOS),
        hf.TemperatureLogitsWarper(temperature),
        *([hf.TopKLogitsWarper(k)] if k else []),
        hf.TopPLogitsWarper(p),
        hf.MinPLogitsWarper(min_p),
    ]
    logits = random_logits(seed)
    np.testing.assert_allclose(ours(params, logits), reference(chain, logits), rtol=0, atol=TOLERANCE)


def test_presence_and_frequency_see_the_output_only() -> None:
    logits = random_logits(1)
    params = SamplingParams(temperature=1.0, presence_penalty=0.5, frequency_penalty=0.25)
    expected = logits.clone()
    for token in set(OUTPUT):
        expected[token] -= 0.5 + 0.25 * OUTPUT.count(token)
    np.testing.assert_allclose(ours(params, logits), torch.log_softmax(expected, -1).numpy(), atol=1e-12)


def test_penalties_come_before_bias_and_temperature() -> None:
    logits = random_logits(2)
    params = SamplingParams(
        temperature=0.5, repetition_penalty=2.0, frequency_penalty=1.0, logit_bias=((11, 4.0), (3, -1.0))
    )
    expected = logits.clone()
    for token in set(PROMPT + OUTPUT):
        expected[token] = expected[token] * 2 if expected[token] < 0 else expected[token] / 2
    for token in OUTPUT:
        expected[token] -= 1.0
    expected[11] += 4.0
    expected[3] -= 1.0
    np.testing.assert_allclose(ours(params, logits), torch.log_softmax(expected / 0.5, -1).numpy(), atol=1e-12)


def test_mask_comes_before_the_cuts() -> None:
    logits = random_logits(3)
    allowed = np.zeros(VOCAB, dtype=bool)
    allowed[10:20] = True
    row = ours(SamplingParams(temperature=1.0, top_k=4), logits, allowed)
    kept = np.flatnonzero(row > -np.inf)
    assert set(kept) == set(10 + torch.topk(logits[10:20], 4).indices.numpy())


def test_min_tokens_bans_whatever_would_end_the_text() -> None:
    logits = random_logits(4)
    params = SamplingParams(temperature=1.0, min_tokens=6, stop_token_ids=(5, 900))
    assert set(np.flatnonzero(ours(params, logits) == -np.inf)) == {5, EOS}
    ignoring = SamplingParams(temperature=1.0, min_tokens=6, stop_token_ids=(5,), ignore_eos=True)
    assert set(np.flatnonzero(ours(ignoring, logits) == -np.inf)) == {5}


def test_prompt_ids_without_a_logit_are_passed_over() -> None:
    processors = Processors(
        SamplingParams(repetition_penalty=2.0), prompt=[1, 80], eos_token_ids=[99], vocab_size=VOCAB
    )
    scores = processors.row(torch.ones(VOCAB), []).exact
    assert scores[1] == 0.5
    assert scores.sum() == VOCAB - 0.5


@given(st.lists(st.sampled_from([-np.inf, -2.0, -1.0, -0.0, 0.0, 1.0]), min_size=1, max_size=12), st.integers(1, 12))
def test_top_k_keeps_the_lowest_ids_of_a_tie(values: list[float], k: int) -> None:
    scores = np.array(values)
    expected = [i for i in np.lexsort((np.arange(len(values)), -scores)) if scores[i] > -np.inf][:k]
    assert top_k(scores, k).tolist() == sorted(expected)


@given(st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=1, max_size=16).filter(any), st.integers(1, 63))
def test_top_p_keeps_the_fewest_and_lowest_ids(weights: list[int], sixty_fourths: int) -> None:
    # Integer weights, compared exactly: the mass kept is at least p and the last one kept was needed.
    with np.errstate(divide="ignore"):
        scores = np.log(np.array(weights, dtype=np.float64))
    total = sum(weights)
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    kept, mass = [], 0
    for i in order:
        kept.append(i)
        mass += weights[i]
        if mass * 64 >= total * sixty_fourths:
            break
    is_borderline = any(
        sum(weights[i] for i in order[: n + 1]) * 64 == total * sixty_fourths for n in range(len(order))
    )
    found = top_p(scores, sixty_fourths / 64).tolist()
    if not is_borderline:  # exp(log w) may be an ulp beside w, which decides where the mass equals p exactly
        assert found == sorted(kept)


def test_top_p_of_equal_weights_keeps_the_lowest_ids() -> None:
    assert top_p(np.zeros(8), 0.5).tolist() == [0, 1, 2, 3]
    assert top_p(np.zeros(8), 0.51).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_refused(value: float) -> None:
    logits = random_logits(5)
    logits[17] = value
    banned = SamplingParams(temperature=1.0, logit_bias=((17, float("-inf")),))
    for params in (SamplingParams(), SamplingParams(temperature=1.0, top_k=3), banned):
        with pytest.raises(ForerunError, match="finite logits"):
            ours(params, logits)


def test_a_row_with_nothing_left_is_refused() -> None:
    nothing = np.zeros(VOCAB, dtype=bool)
    with pytest.raises(ForerunError, match="every token banned"):
        ours(SamplingParams(temperature=1.0), random_logits(6), nothing)
    with pytest.raises(ForerunError, match="logit_bias ids below the vocabulary of 50"):
        ours(SamplingParams(logit_bias=((50, 1.0),)), random_logits(6))


def test_the_row_given_is_left_as_it_was() -> None:
    logits = random_logits(7)
    before = logits.clone()
    ours(SamplingParams(temperature=1.0, repetition_penalty=2.0, logit_bias=((1, 3.0),)), logits)
    assert torch.equal(logits, before)
