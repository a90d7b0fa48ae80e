"""The top-p nucleus of a row, found without sorting it and without float64 for what lies outside.

All weights are computed in fp32, those of a *head* that should hold the nucleus again in float64. The rest, the *tail*,
only adds to the mass, within a bound on its error. Where the least and the largest possible mass give one nucleus, the
true mass gives it too; where they don't, which is rare, the whole row decides.
"""

from __future__ import annotations

import math

import numpy as np

from forerun.sampling.cuts import top_k, top_p
from forerun.sampling.logit_row import LogitRow
from forerun.sampling.noise import IdRow

# The head are the entries that weigh at least this share of 1 - p, the likeliest token weighing 1. Flat rows need more.
HEAD_SHARES = (2.0**-10, 2.0**-16)
# Below this, 1 / T leaves fp32 sooner or later.
LEAST_TEMPERATURE = 1e-6
# Relative error of a fp32 weight beyond which it is not worth asking.
MAX_ERROR = 0.05
# Arrays of this many fp32 stay in the cache.
IDS_PER_PART = 2**15
# Relative room for float64 sums over a vocabulary, in whatever order they were taken.
ROOM = 1e-9


def nucleus(row: LogitRow, temperature: float, p: float) -> IdRow:
    """Ascending ids of the fewest likeliest tokens whose mass is at least ``p`` (< 1): ``top_p`` of all scores."""
    error = _weight_error(row, temperature)
    for share in HEAD_SHARES if error <= MAX_ERROR else ():
        found = _from_head(row, temperature, p, (1.0 - p) * share, error)
        if found is not None:
            return found
    return top_p(row.scores(slice(None), temperature), p)


def _from_head(row: LogitRow, temperature: float, p: float, least: float, error: float) -> IdRow | None:
    """The nucleus, if it surely lies among the entries that weigh at least ``least``."""
    head, tail = _parted(row, temperature, least)
    weights = np.exp(row.scores(head, temperature))
    mass = float(weights.sum())
    # Where the running sum must pass, at the least and at the largest possible mass.
    low = p * (mass + tail * (1.0 - error)) * (1.0 - ROOM)
    high = p * (mass + tail * (1.0 + error)) * (1.0 + ROOM)
    running = np.cumsum(-np.sort(-weights))
    count = int(running.searchsorted(high)) + 1
    if count > head.size or int(running.searchsorted(low)) + 1 != count:
        return None
    found = top_k(weights, count)
    # Nothing outside the head may weigh as much as the least of these.
    return head[found] if float(weights[found].min()) > least * (1.0 + 2.0 * error) else None


def _parted(row: LogitRow, temperature: float, least: float) -> tuple[IdRow, float]:
    """Ids whose fp32 weight exp(score) is at least ``least``, and what all others weigh together.

    Part by part in one piece of memory, which stays in the cache.
    """
    peak, steepness, least32 = np.float32(row.peak), np.float32(1.0 / temperature), np.float32(least)
    work = np.empty(min(row.size, IDS_PER_PART), dtype=np.float32)
    rest = np.zeros_like(work)
    heads = []
    with np.errstate(over="ignore"):  # what is beyond fp32 weighs nothing
        for start in range(0, row.size, IDS_PER_PART):
            part = row.rough[start : start + IDS_PER_PART]
            weights = work[: part.size]
            np.subtract(part, peak, out=weights)
            weights *= steepness
            np.exp(weights, out=weights)
            head = (weights >= least32).nonzero()[0]
            weights[head] = 0.0
            rest[: part.size] += weights
            heads.append(head + start)
    return np.concatenate(heads), float(rest.sum())


def _weight_error(row: LogitRow, temperature: float) -> float:
    """Bound on the relative error of every fp32 weight above e^-90, and of sums of them; what is below is no matter.

    Such a logit lies within 90 T of the peak. It, the peak, their difference, 1 / T and the product are rounded by
    2^-24 each; the exponential and the sum add less than 2^-18.
    """
    if temperature < LEAST_TEMPERATURE:
        return math.inf
    return (2.0 * abs(row.peak) / temperature + 400.0) * 2.0**-23 + 2.0**-17
