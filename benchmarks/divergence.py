"""How far each engine's next-token laws are from fp32 arithmetic on the same weights: the price of its number types.

KL(p, q) in nats over the tokens that both list among their most probable, with all others in one class: by the data
processing inequality never more than the divergence itself, and close to it, since the listed tokens hold nearly all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forerun.sweep.statistics import median

NUM_LISTED = 1000
Law = Mapping[int, float]  # token id to natural log-probability
NextToken = Callable[[Sequence[int], int], Law]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Over positions of held-out text: mean and median KL, and how often the likeliest token is the same."""

    label: str
    num_positions: int
    mean_kl: float
    median_kl: float
    top1_agreement: float


def coarse_kl(p: Law, q: Law) -> float:
    """See the head of this file. A class that rounding leaves with nothing, or less, counts as tiny."""
    shared = p.keys() & q.keys()
    listed = sum(math.exp(p[token]) * (p[token] - q[token]) for token in shared)
    rest_p = max(1.0 - sum(math.exp(p[token]) for token in shared), 1e-9)
    rest_q = max(1.0 - sum(math.exp(q[token]) for token in shared), 1e-9)
    return listed + rest_p * math.log(rest_p / rest_q)


def compare(label: str, reference: Sequence[Law], laws: Sequence[Law]) -> Divergence:
    """Laws of one engine beside those of the reference, position by position."""
    divergences = [coarse_kl(p, q) for p, q in zip(reference, laws, strict=True)]
    same = [max(p, key=lambda t: p[t]) == max(q, key=lambda t: q[t]) for p, q in zip(reference, laws)]
    return Divergence(
        label, len(divergences), sum(divergences) / len(divergences), median(divergences), sum(same) / len(same)
    )


def prefixes(texts: Sequence[tuple[Sequence[int], Sequence[int]]], num_positions: int, seed: int) -> list[list[int]]:
    """Places within answers, each with all that stands before it; ``texts`` are (prompt, answer)."""
    places = [(index, end) for index, (_, answer) in enumerate(texts) for end in range(1, len(answer))]
    chosen = random.Random(seed).sample(places, min(num_positions, len(places)))
    return [[*texts[index][0], *texts[index][1][:end]] for index, end in sorted(chosen)]


def laws(next_token: NextToken, contexts: Sequence[Sequence[int]]) -> list[Law]:
    """One law per context."""
    return [next_token(context, NUM_LISTED) for context in contexts]
