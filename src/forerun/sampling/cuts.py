"""Top-k and top-p over whole rows of scores: the rules themselves, ties included."""

from __future__ import annotations

import numpy as np

from forerun.sampling.noise import FloatRow, IdRow


def top_k(scores: FloatRow, k: int) -> IdRow:
    """Ascending indices of the k largest scores above -inf; where values tie at the cut, the lowest indices stay."""
    if k >= scores.size:
        return np.flatnonzero(scores > -np.inf)
    cut = np.partition(scores, scores.size - k)[scores.size - k]
    above = np.flatnonzero(scores > cut)
    if cut == -np.inf:
        return above
    tied = np.flatnonzero(scores == cut)[: k - above.size]
    return np.union1d(above, tied)


def top_p(scores: FloatRow, p: float) -> IdRow:
    """Ascending indices of the fewest largest scores whose mass is at least p; ties at the cut keep the lowest.

    Entries below (1 - p) / n of the mass weigh less than 1 - p together, so the nucleus lies among the others: only
    the values of those, often hundreds of 150,000, are sorted.
    """
    weights = np.exp(scores)
    mass = weights.sum()
    large = np.flatnonzero(weights >= mass * (1.0 - p) / weights.size)
    descending = -np.sort(-weights[large])
    count = int(np.searchsorted(np.cumsum(descending), p * mass)) + 1
    return large[top_k(weights[large], count)]
