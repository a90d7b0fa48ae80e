"""Block verification of a chain (Sun et al., arXiv 2403.10444): keeps at least as many tokens as token-wise rejection.

The whole block is weighed at once: w_i is the capped running product of p / q, and h_i the chance to keep i tokens once
no longer prefix was kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from forerun.types import Draft
from forerun.verify.base import Law, Rule, draft_row, normalised, require_chain
from forerun.verify.chance import Chance
from forerun.verify.verdict import Verdict

RULE = Rule("block", needs_non_anticipating_lengths=True, needs_q=True, has_trees=False)


def prefix_weights(p: Sequence[Tensor], q: Sequence[Tensor], tokens: Sequence[int]) -> list[float]:
    """w_0 = 1 and w_i = min(1, w_{i-1} p_i / q_i) for each drafted token; ``p`` may have one row more."""
    weights = [1.0]
    for p_row, q_row, token in zip(p, q, tokens, strict=False):
        weights.append(min(1.0, weights[-1] * float(p_row[token]) / float(q_row[token])))
    return weights


def excess(weight: float, p: Tensor, q: Tensor) -> Tensor:
    """The positive part of w p - q, [vocabulary]."""
    return (weight * p - q).clamp(min=0.0)


def keep_probability(weight: float, p: Tensor, q: Tensor) -> float:
    """h_i = S / (S + 1 - w_i), S the mass of the excess at the next row; 0 where S is 0, even with w = 1."""
    mass = float(excess(weight, p, q).sum())
    return mass / (mass + (1.0 - weight)) if mass > 0.0 else 0.0


def residual(weight: float, p: Tensor, q: Tensor) -> Tensor:
    """The law of the token after a kept prefix of weight w: the excess, normalised; p where nothing is left."""
    return normalised(excess(weight, p, q), p)


def verify(draft: Draft, law: Law, chance: Chance) -> Verdict:
    """Verify a chain; every row is needed, and the coins are tossed from the longest prefix down."""
    require_chain(draft, RULE)
    length = len(draft)
    p = [law(row, draft.tokens[:row]) for row in range(length + 1)]
    q = [draft_row(draft, row, len(p[0])) for row in range(1, length + 1)]
    weights = prefix_weights(p, q, draft.tokens)
    kept = length
    while kept and not chance.happens(
        weights[kept] if kept == length else keep_probability(weights[kept], p[kept], q[kept])
    ):
        kept -= 1
    token = chance.draw(p[length] if kept == length else residual(weights[kept], p[kept], q[kept]))
    return Verdict(tuple(range(1, kept + 1)), (*draft.tokens[:kept], token))
