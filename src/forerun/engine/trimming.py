"""Drafts cut to the rows that pay, once they are known."""

from __future__ import annotations

from collections.abc import Sequence

from forerun.engine.row_limits import RowLimits
from forerun.engine.scheduler import Work
from forerun.types import Draft


def trimmed(works: Sequence[Work], drafts: Sequence[Draft], limits: RowLimits | None) -> list[Draft]:
    """The drafts of a pass, the longest ones cut where ``limits`` say that their rows don't pay.

    Parents precede their children, so the front of a draft is a draft. Whatever is cut, the text stays.
    """
    if limits is None:
        return list(drafts)
    num_wanted = sum(len(draft) for draft in drafts)
    if not num_wanted:
        return list(drafts)
    decoding = [work for work in works if not work.request.is_prefilling]
    num_committed = sum(work.num_committed for work in decoding)
    context = sum(work.request.num_tokens for work in decoding) / len(decoding)
    num_kept = limits.draft_rows(num_committed, len(decoding), num_wanted, context)
    lengths = leveled([len(draft) for draft in drafts], num_kept)
    return [draft.truncated(length) for draft, length in zip(drafts, lengths, strict=True)]


def leveled(lengths: Sequence[int], total: int) -> list[int]:
    """``lengths`` cut to ``total`` in all, the longest first: late rows of long drafts are accepted least."""
    kept = list(lengths)
    level = max(kept, default=0)
    while sum(kept) > total:
        level -= 1
        for index in reversed(range(len(kept))):
            if kept[index] > level and sum(kept) > total:
                kept[index] = level
    return kept
