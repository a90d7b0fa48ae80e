"""What every verification rule says of itself, and what the classical ones ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from forerun.types import Draft

Law = Callable[[int, tuple[int, ...]], Tensor]
"""Maps a draft row (0 is the anchor) and the path's tokens down to it to the target's processed row there: the
probabilities of the next token, float64 [vocabulary]."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's declaration.

    ``needs_non_anticipating_lengths``: how many drafts are verified must not depend on the drafted tokens, or the law
    is biased; ``needs_q``: the draft must carry the rows that its tokens were sampled from; ``has_trees``: branches
    are understood.
    """

    name: str
    needs_non_anticipating_lengths: bool
    needs_q: bool
    has_trees: bool


def draft_row(draft: Draft, row: int, vocab_size: int) -> Tensor:
    """The law that the token of draft row ``row`` (from 1) was drawn from, float64; one-hot where there is no q.

    Raises:
        ValueError: the token has no probability under its own row, so that row is not the law it was drawn from.
    """
    token = draft.tokens[row - 1]
    if draft.q is None:
        one_hot = torch.zeros(vocab_size, dtype=torch.float64)
        one_hot[token] = 1.0
        return one_hot
    # Rows may come as float32: their own sum, rather than 1, is what the token was drawn from.
    q = draft.q[row - 1].to("cpu", torch.float64)
    require_drawn(q, token)
    return q / q.sum()


def require_drawn(q: Tensor, token: int) -> None:
    """Refuse a token that can't have been drawn from ``q``."""
    if not q[token] > 0.0:
        raise ValueError(f"q must be the row that the token was drawn from, found q = {float(q[token])} at {token}")


def require_chain(draft: Draft, rule: Rule) -> None:
    """Refuse branches where a rule knows none."""
    if not draft.is_chain:
        raise ValueError(f"{rule.name} verifies chains, found parents {draft.parents}")


def normalised(row: Tensor, fallback: Tensor) -> Tensor:
    """``row`` scaled to sum to 1, or ``fallback`` where it has no mass: a branch that only rounding can reach."""
    mass = row.sum()
    return row / mass if mass > 0.0 else fallback
