"""Paired ratios to a median, an interval and a decision, without assuming how ratios are distributed.

The interval between the k-th smallest and the k-th largest of n values misses the median only if fewer than k of them
fall on one side of it: twice a binomial tail at one half (Conover, Practical Nonparametric Statistics, sign test).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from forerun.sweep.cells import CellState
from forerun.sweep.results import Interval

MIN_PAIRS: Final = 6
MAX_PAIRS: Final = 30
MAX_HALF_WIDTH: Final = 0.05

# What six pairs cover (five reach only 0.9375). Every interval is asked for as much, not for 0.95: looking after every
# pair and stopping at a narrow one costs about a point, so that what is reported still covers 95 % (tests simulate it).
CONFIDENCE: Final = 1 - 2 / 2**MIN_PAIRS


def coverage(num_pairs: int, k: int) -> float:
    """Chance that the k-th smallest to the k-th largest of ``num_pairs`` values enclose the median."""
    tail = sum(math.comb(num_pairs, j) for j in range(k))
    return 1.0 - 2 * tail / float(2**num_pairs)


def median_interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Median and the narrowest order-statistic interval of at least ``confidence``; ``None`` below six pairs."""
    n = len(ratios)
    ranks = [k for k in range(1, n // 2 + 1) if coverage(n, k) >= confidence]
    if n < MIN_PAIRS or not ranks:
        return None
    k = ranks[-1]
    ordered = sorted(ratios)
    return Interval(median(ordered), ordered[k - 1], ordered[n - k], n, coverage(n, k))


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of all values do not exceed; ``None`` of nothing."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def has_enough_pairs(
    ratios: Sequence[float],
    *,
    min_pairs: int = MIN_PAIRS,
    max_pairs: int = MAX_PAIRS,
    max_half_width: float = MAX_HALF_WIDTH,
) -> bool:
    """Whether a cell may stop: the interval is narrow enough, or the pairs are used up."""
    if len(ratios) >= max_pairs:
        return True
    interval = median_interval(ratios) if len(ratios) >= min_pairs else None
    return interval is not None and interval.half_width <= max_half_width


def decide(ratios: Sequence[float]) -> tuple[CellState, Interval | None, str]:
    """State, interval and reason of a cell from the ratios of its kept pairs: measured, tie or too few."""
    interval = median_interval(ratios)
    if interval is None:
        return CellState.NOT_RUN, None, f"too few: {len(ratios)} pairs that count, an interval needs {MIN_PAIRS}"
    if interval.includes_one:
        reason = f"a tie with off: {interval.low:.2f} to {interval.high:.2f} includes 1"
        return CellState.TIE, interval, reason
    return CellState.MEASURED, interval, ""


def expected_false_findings(num_comparisons: int, confidence: float = CONFIDENCE) -> float:
    """How many of that many true ties would still be called faster or slower by chance."""
    return num_comparisons * (1 - confidence)
