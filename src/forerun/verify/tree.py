"""Trees: several children per node, tried one after another against what is left of the target's law.

How the children came about decides what a refusal removes: deterministic children (a drafter's best, retrieval) only
themselves; children drawn independently from q (SpecInfer, Miao et al., arXiv 2305.09781) the mass of q; children
drawn without replacement the mass of q, which then loses the refused child.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from forerun.types import Draft
from forerun.verify.base import Law, Rule, draft_row, normalised, require_drawn
from forerun.verify.chance import Chance
from forerun.verify.rejection import acceptance, residual
from forerun.verify.verdict import Verdict

# The walk's coins know nothing of how deterministic children were found, so a choice that looked at them can't bias it.
DETERMINISTIC = Rule("tree, deterministic", needs_non_anticipating_lengths=False, needs_q=False, has_trees=True)
INDEPENDENT = Rule("tree, independent", needs_non_anticipating_lengths=True, needs_q=True, has_trees=True)
DISTINCT = Rule("tree, without replacement", needs_non_anticipating_lengths=True, needs_q=True, has_trees=True)

NodeRule = Callable[[Tensor, Tensor, Sequence[int], Chance], tuple[int | None, Tensor]]
"""(p, q, children's tokens, chance) to the index of the child kept, or None, and the law of a token in its stead."""


def try_deterministic(p: Tensor, q: Tensor, tokens: Sequence[int], chance: Chance) -> tuple[int | None, Tensor]:
    """Keep a child with what is left of p there; a refused one is zeroed. ``q`` does not matter."""
    left = p
    for index, token in enumerate(tokens):
        if chance.happens(float(left[token])):
            return index, left
        left = normalised(_without(left, token), p)
    return None, left


def try_independent(p: Tensor, q: Tensor, tokens: Sequence[int], chance: Chance) -> tuple[int | None, Tensor]:
    """Keep a child with min(1, left / q); after a refusal what is left is its excess over q. Twins are allowed."""
    left = p
    for index, token in enumerate(tokens):
        require_drawn(q, token)
        if chance.happens(acceptance(left, q, token)):
            return index, left
        left = residual(left, q)
    return None, left


def try_distinct(p: Tensor, q: Tensor, tokens: Sequence[int], chance: Chance) -> tuple[int | None, Tensor]:
    """As independent children, but a refused child also leaves q, from which the next one was drawn."""
    left = p
    for index, token in enumerate(tokens):
        require_drawn(q, token)
        if chance.happens(acceptance(left, q, token)):
            return index, left
        left = residual(left, q)
        q = normalised(_without(q, token), q)
    return None, left


def verify_deterministic(draft: Draft, law: Law, chance: Chance) -> Verdict:
    """Verify a tree of deterministic children."""
    return _descend(draft, law, chance, try_deterministic)


def verify_independent(draft: Draft, law: Law, chance: Chance) -> Verdict:
    """Verify a tree whose siblings were drawn independently from the same row of ``draft.q``."""
    return _descend(draft, law, chance, try_independent)


def verify_distinct(draft: Draft, law: Law, chance: Chance) -> Verdict:
    """Verify a tree whose siblings, in order, were drawn without replacement; q rows are those before any draw."""
    return _descend(draft, law, chance, try_distinct)


def _descend(draft: Draft, law: Law, chance: Chance, try_children: NodeRule) -> Verdict:
    """One walk down: a node's law is asked for once, whichever of its children is kept."""
    children = draft.children()
    rows: list[int] = []
    path: tuple[int, ...] = ()
    while True:
        row = rows[-1] if rows else 0
        p = law(row, path)
        if not children[row]:
            return Verdict(tuple(rows), (*path, chance.draw(p)))
        tokens = [draft.tokens[child - 1] for child in children[row]]
        kept, left = try_children(p, draft_row(draft, children[row][0], len(p)), tokens, chance)
        if kept is None:
            return Verdict(tuple(rows), (*path, chance.draw(left)))
        rows.append(children[row][kept])
        path = (*path, tokens[kept])


def _without(row: Tensor, token: int) -> Tensor:
    rest = row.clone()
    rest[token] = 0.0
    return rest
