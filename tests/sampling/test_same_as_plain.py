"""Every shortcut of the sampler gives what whole rows in float64 give: ids, ties, cuts and logprobs, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from forerun.sampling import noise, nucleus
from forerun.sampling.cuts import top_k, top_p
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.logit_row import LogitRow
from forerun.sampling.nucleus import nucleus as find_nucleus
from forerun.sampling.params import SamplingParams
from support.plain_sampler import PlainSampler

PROMPT = [1, 2, 3, 3, 30]
ENDS = [0, 7]

PARAMS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 1e-310, 1e-5, 1e-3, 0.05, 0.3, 0.8, 1.0, 1.7, 10.0]),
        "top_k": st.sampled_from([0, 0, 0, 0, 0, 1, 2, 5, 50, 700]),
        "top_p": st.sampled_from([1.0, 1.0, 1.0, 0.999, 0.95, 0.95, 0.75, 0.5, 0.25, 1e-4]),
        "min_p": st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.02, 0.25, 0.5, 1.0]),
        "repetition_penalty": st.sampled_from([1.0, 1.0, 1.3, 0.7]),
        "presence_penalty": st.sampled_from([0.0, 0.0, 0.5]),
        "frequency_penalty": st.sampled_from([0.0, 0.0, -0.25]),
        "logit_bias": st.sampled_from([(), (), ((4, 2.0), (5, float("-inf")), (6, -1e-9))]),
        "min_tokens": st.sampled_from([0, 0, 4]),
        "logprobs": st.sampled_from([0, 1, 5, 20]),
    }
)
SIZES = st.sampled_from([31, 300, 5000, 20_000, 151_936])
KINDS = st.sampled_from(
    ["smooth", "peaked", "flat", "few values", "equal", "half banned", "far apart", "large", "tiny"]
)


def row_of(kind: str, size: int, seed: int, dtype: torch.dtype) -> Tensor:
    """A row of logits that is awkward in the way of its name."""
    random = np.random.default_rng(seed)
    row = random.normal(size=size) * 3.0
    if kind == "peaked":
        row[random.integers(size, size=3)] += 15.0
    elif kind == "flat":
        row *= 0.1
    elif kind == "few values":
        row = np.round(row)
    elif kind == "equal":
        row = np.full(size, -0.75)
    elif kind == "half banned":
        row[random.random(size) < 0.5] = -np.inf
        row[random.integers(size)] = 1.0
    elif kind == "far apart":
        row = np.where(random.random(size) < 0.3, row * 1e-12, row * 1e36)
    elif kind == "large":
        row += 4096.0
    elif kind == "tiny":
        # Different in fp32, but all the same beside the peak in float64.
        row *= 1e-18
        row[random.integers(size)] = 5.0
    return torch.from_numpy(row).to(dtype)


@given(
    values=PARAMS,
    size=SIZES,
    kind=KINDS,
    dtype=st.sampled_from([torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16]),
    seed=st.integers(0, 2**32),
    position=st.integers(0, 2**20),
    output=st.lists(st.integers(0, 30), max_size=8),
)
@settings(max_examples=250, deadline=None)
def test_draws_are_those_of_the_plain_sampler(
    values: dict[str, Any], size: int, kind: str, dtype: torch.dtype, seed: int, position: int, output: list[int]
) -> None:
    params = SamplingParams(**values)
    logits = row_of(kind, size, seed, dtype)
    shipped = KeyedSampler(params, seed=seed, choice=1, prompt=PROMPT, eos_token_ids=ENDS, vocab_size=size)
    plain = PlainSampler(params, seed=seed, choice=1, prompt=PROMPT, end_ids=ENDS)
    expected = plain.drawn(logits, position, output, params.temperature)
    assert shipped.token(logits, position, output) == expected[0]
    assert shipped.draft_tokens(logits, position, output, count=4, is_keyed=True) == expected[:4]
    hot = plain.drawn(logits, position, output, params.temperature * 1.5)
    assert shipped.draft_tokens(logits, position, output, count=3, is_keyed=True, temperature_scale=1.5) == hot[:3]
    token = expected[0]
    logprob, top = plain.logprobs(logits, token, params.logprobs or 0)
    found = shipped.logprobs(logits, output, token)
    assert (found.token, found.logprob, list(found.top)) == (token, logprob, top)


@given(
    size=SIZES, kind=KINDS, seed=st.integers(0, 2**32), temperature=st.floats(1e-3, 10.0), p=st.floats(1e-6, 0.99999)
)
@settings(max_examples=150, deadline=None)
def test_nucleus_is_that_of_all_scores(size: int, kind: str, seed: int, temperature: float, p: float) -> None:
    row = LogitRow.of(row_of(kind, size, seed, torch.float32))
    expected = top_p(row.scores(slice(None), temperature), p)
    np.testing.assert_array_equal(find_nucleus(row, temperature, p), expected)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_mass_at_the_very_cut_is_left_to_float64(count: int) -> None:
    # Eight equal weights: count / 8 of the mass is reached exactly, where an interval can say nothing.
    logits = torch.full((30_000,), -40.0)
    logits[100:900:100] = 1.0
    row = LogitRow.of(logits)
    assert nucleus._from_head(row, 1.0, count / 8, 1e-4, 1e-4) is None
    assert find_nucleus(row, 1.0, count / 8 - 1e-12).tolist() == list(range(100, 100 + 100 * count, 100))


@given(size=SIZES, kind=KINDS, seed=st.integers(0, 2**32), temperature=st.floats(0.01, 10.0))
@settings(max_examples=100, deadline=None)
def test_weights_in_fp32_are_as_close_as_promised(size: int, kind: str, seed: int, temperature: float) -> None:
    row = LogitRow.of(row_of(kind, size, seed, torch.float32))
    head, sum_of_all = nucleus._parted(row, temperature, 2.0)
    assert head.size == 0
    exact = float(np.exp(row.scores(slice(None), temperature)).sum())
    error = nucleus._weight_error(row, temperature)
    assert abs(sum_of_all - exact) <= error * exact
    # Close enough to be of use, for logits as they come.
    assert error < 1e-3 or temperature < 0.1 or kind in ("large", "far apart")


def test_a_cut_beside_the_heads_border_is_left_to_float64() -> None:
    logits = torch.full((30_000,), -40.0)
    logits[[5, 6, 7]] = torch.tensor([1.0, 0.5, 0.25]).log()
    row = LogitRow.of(logits)
    assert nucleus._from_head(row, 1.0, 0.99, 0.249, 1e-4).tolist() == [5, 6, 7]
    assert nucleus._from_head(row, 1.0, 0.99, 0.24999, 1e-4) is None


def test_most_rows_need_no_float64_beyond_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(nucleus, "top_p", lambda scores, p: asked.append(p) or top_p(scores, p))
    for seed in range(40):
        row = row_of("smooth", 20_000, seed, torch.float32)
        row[seed] = row.max() + 4.0
        find_nucleus(LogitRow.of(row), 0.8, 0.95)
    assert len(asked) <= 4


@given(size=SIZES, kind=KINDS, seed=st.integers(0, 2**32), k=st.integers(1, 600))
@settings(max_examples=100, deadline=None)
def test_among_largest_holds_every_candidate(size: int, kind: str, seed: int, k: int) -> None:
    row = LogitRow.of(row_of(kind, size, seed, torch.float64))
    ids = row.among_largest(k)
    scores = row.scores(slice(None), 0.7)
    np.testing.assert_array_equal(ids[top_k(scores[ids], k)], top_k(scores, k))


def test_among_largest_looks_at_few() -> None:
    row = LogitRow.of(row_of("smooth", 151_936, 3, torch.float32))
    assert row.among_largest(5).size < 50
    assert row.among_largest(50).size < 200


@given(st.integers(1, 60_000), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_mass_has_the_bits_of_one_sum(size: int, seed: int) -> None:
    row = LogitRow.of(row_of("smooth", size, seed, torch.float32))
    shifted = row.scores(slice(None), 1.0)
    assert row.log_mass() == float(np.log(np.exp(shifted).sum()))


@pytest.mark.parametrize("gap", [1, 3, noise.WORDS_PER_JUMP - 1, noise.WORDS_PER_JUMP, noise.WORDS_PER_JUMP + 1, 5000])
@pytest.mark.parametrize("first", [0, 1, 3, 4, 4095])
def test_noise_does_not_know_how_far_ids_lie_apart(gap: int, first: int) -> None:
    keyed = noise.KeyedNoise(2**63 + 5, 2)
    ids = first + np.cumsum([0, gap, gap, 1, 1, gap, 2, gap + 1])
    np.testing.assert_array_equal(keyed.at(77, ids), keyed.row(77, int(ids[-1]) + 1)[ids])
    assert keyed.at(77, ids[:0]).size == 0
