"""Verification is equality: commit while the proposal is the token that the target draws anyway.

Right for chains and trees, greedy and sampled, and whatever chose the drafts: the text is fixed by ``next_token``.
"""

from __future__ import annotations

from collections.abc import Callable

from forerun.types import Draft
from forerun.verify.base import Rule
from forerun.verify.verdict import Verdict

RULE = Rule("keyed match", needs_non_anticipating_lengths=False, needs_q=False, has_trees=True)


def match(
    draft: Draft,
    next_token: Callable[[int, tuple[int, ...]], int],
    stop: Callable[[int], bool] = lambda token: False,
) -> Verdict:
    """Walk down from the anchor while some child is the target's token; nothing beyond the first mismatch is asked.

    ``next_token(row, path)`` is the target's token after draft row ``row``, whose path from the anchor holds the tokens
    ``path``. Nothing is asked after an accepted token that ``stop`` calls the text's end. Among equal siblings the
    first is taken.
    """
    rows: list[int] = []
    tokens: list[int] = []
    row: int | None = 0
    while row is not None:
        token = next_token(row, tuple(tokens))
        tokens.append(token)
        row = draft.child(row, token)
        if row is not None:
            rows.append(row)
            if stop(token):
                break
    return Verdict(tuple(rows), tuple(tokens))
