"""Token-wise rejection of a chain (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318).

A drafted token is kept with probability min(1, p / q); the first one refused is replaced by a draw from what p has
over q. One-hot q (a deterministic draft: argmax, retrieval) is the special case "keep with probability p(token), else
draw from p without that token", which is what the same formulas give.
"""

from __future__ import annotations

from torch import Tensor

from forerun.types import Draft
from forerun.verify.base import Law, Rule, draft_row, normalised, require_chain
from forerun.verify.chance import Chance
from forerun.verify.verdict import Verdict

RULE = Rule("rejection", needs_non_anticipating_lengths=True, needs_q=True, has_trees=False)


def acceptance(p: Tensor, q: Tensor, token: int) -> float:
    """Probability that ``token``, drawn from ``q``, is kept: min(1, p / q) there."""
    return min(1.0, float(p[token]) / float(q[token]))


def residual(p: Tensor, q: Tensor) -> Tensor:
    """The law of a refused token's replacement: the positive part of p - q, normalised; p where nothing is left."""
    return normalised((p - q).clamp(min=0.0), p)


def verify(draft: Draft, law: Law, chance: Chance) -> Verdict:
    """Verify a chain left to right; rows beyond the first refusal are not asked for."""
    require_chain(draft, RULE)
    for row, token in enumerate(draft.tokens):
        path = draft.tokens[:row]
        p = law(row, path)
        q = draft_row(draft, row + 1, len(p))
        if not chance.happens(acceptance(p, q, token)):
            return _verdict(draft, row, chance.draw(residual(p, q)))
    return _verdict(draft, len(draft), chance.draw(law(len(draft), draft.tokens)))


def _verdict(draft: Draft, num_accepted: int, token: int) -> Verdict:
    return Verdict(tuple(range(1, num_accepted + 1)), (*draft.tokens[:num_accepted], token))
