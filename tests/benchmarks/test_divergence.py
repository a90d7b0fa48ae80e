"""KL over listed tokens and one class for the rest: exact where all are listed, never too high otherwise."""

from __future__ import annotations

import math

import pytest
import torch
from benchmarks.divergence import coarse_kl, compare, prefixes
from hypothesis import given
from hypothesis import strategies as st


def law(*probabilities: float) -> dict[int, float]:
    return {token: math.log(value) for token, value in enumerate(probabilities)}


def test_equal_laws_do_not_diverge() -> None:
    assert coarse_kl(law(0.5, 0.3, 0.2), law(0.5, 0.3, 0.2)) == pytest.approx(0.0, abs=1e-12)


def test_all_tokens_listed_is_the_divergence_itself() -> None:
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert coarse_kl(law(0.5, 0.5), law(0.25, 0.75)) == pytest.approx(expected, abs=1e-6)


@given(st.integers(0, 10_000), st.integers(2, 40))
def test_never_more_than_the_whole_divergence(seed: int, num_listed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    p, q = torch.log_softmax(torch.randn(2, 40, generator=generator, dtype=torch.float64), -1)
    whole = float((p.exp() * (p - q)).sum())
    tops = [dict(zip(top.indices.tolist(), top.values.tolist())) for top in (p.topk(num_listed), q.topk(num_listed))]
    assert -1e-9 <= coarse_kl(*tops) <= whole + 1e-6


def test_a_comparison_counts_positions_and_likeliest_tokens() -> None:
    found = compare("x", [law(0.6, 0.4), law(0.6, 0.4)], [law(0.6, 0.4), law(0.4, 0.6)])
    assert (found.num_positions, found.top1_agreement) == (2, 0.5)
    assert found.mean_kl == pytest.approx(found.median_kl) and found.mean_kl > 0.02


def test_positions_lie_within_answers() -> None:
    texts = [((1, 2), (3, 4, 5)), ((6,), (7, 8))]
    everything = prefixes(texts, 100, seed=0)
    assert everything == [[1, 2, 3], [1, 2, 3, 4], [6, 7]]  # never the end: nothing follows it
    assert len(prefixes(texts, 2, seed=0)) == 2 and prefixes(texts, 2, seed=0) == prefixes(texts, 2, seed=0)
