"""Intervals: exact by enumeration, honest under the stopping rule by simulation."""

import itertools
import random

import pytest
from scipy.stats import binom

from forerun.sweep.cells import CellState
from forerun.sweep.statistics import (
    CONFIDENCE,
    coverage,
    decide,
    expected_false_findings,
    has_enough_pairs,
    median,
    median_interval,
    percentile,
)


def test_six_pairs_are_the_fewest_with_an_interval():
    assert median_interval([1.0] * 5) is None
    six = median_interval([1.3, 1.1, 1.2, 1.6, 1.5, 1.4])
    assert (six.low, six.median, six.high) == (1.1, pytest.approx(1.35), 1.6)
    assert six.confidence == 1 - 2 / 64 == CONFIDENCE
    assert coverage(5, 1) < 0.95 < coverage(6, 1)


@pytest.mark.parametrize("n", range(6, 31))
def test_coverage_is_the_sign_tests(n):
    for k in range(1, n // 2 + 1):
        assert coverage(n, k) == pytest.approx(1 - 2 * binom.cdf(k - 1, n, 0.5), abs=1e-12)


@pytest.mark.parametrize("n", [6, 8, 9, 11])
def test_an_interval_covers_the_median_in_exactly_its_share_of_all_sign_patterns(n):
    # Every pattern of n values, each below (0.9...) or above (1.1...) a median of 1, is equally likely.
    ranks = [k for k in range(1, n // 2 + 1) if coverage(n, k) >= CONFIDENCE]
    hits = 0
    for signs in itertools.product((-1, 1), repeat=n):
        found = median_interval([1 + sign * (0.1 + index / 100) for index, sign in enumerate(signs)])
        hits += found.low <= 1 <= found.high
    assert hits / 2**n == coverage(n, ranks[-1]) >= 0.95


@pytest.mark.parametrize("spread", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("is_skewed", [False, True])
def test_the_stopping_rule_leaves_at_least_95_percent(spread, is_skewed):
    rng = random.Random(7)
    num_trials, hits = 1500, 0
    for _ in range(num_trials):
        ratios = []
        while not has_enough_pairs(ratios):
            deviation = rng.expovariate(1) - 0.6931471805599453 if is_skewed else rng.gauss(0, 1)
            ratios.append(2.718281828 ** (spread * deviation))
        found = median_interval(ratios)
        hits += found.low <= 1 <= found.high
    # Three standard errors of 1500 trials at 95 % are 0.017.
    assert hits / num_trials > 0.95 - 0.017


def test_a_cell_stops_when_it_is_narrow_or_at_thirty_pairs():
    assert not has_enough_pairs([1.5] * 5)
    assert has_enough_pairs([1.5] * 6)
    wide = [1.0, 2.0] * 14
    assert not has_enough_pairs(wide)
    assert has_enough_pairs([*wide, 1.0, 2.0])
    assert not has_enough_pairs([1.5] * 6, min_pairs=10)


def test_a_cell_is_measured_a_tie_or_too_few():
    assert decide([1.2] * 4)[0] is CellState.NOT_RUN
    assert "too few: 4 pairs" in decide([1.2] * 4)[2]
    state, interval, reason = decide([0.9, 1.1, 1.0, 1.05, 0.95, 1.02])
    assert state is CellState.TIE
    assert interval.includes_one
    assert "0.90 to 1.10" in reason
    assert decide([1.2, 1.1, 1.3, 1.2, 1.15, 1.25])[0] is CellState.MEASURED
    assert decide([0.8] * 6)[0] is CellState.MEASURED
    assert decide([1.0] * 6)[0] is CellState.TIE


def test_percentiles_are_values_that_occurred():
    values = [5.0, 1.0, 2.0, 4.0, 3.0]
    assert percentile(values, 0.5) == 3.0
    assert percentile(values, 0.95) == 5.0
    assert percentile(list(range(1, 101)), 0.95) == 95
    assert percentile([], 0.5) is None
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5


def test_many_comparisons_find_something_by_chance():
    assert expected_false_findings(64) == pytest.approx(2.0)
