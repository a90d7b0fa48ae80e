"""How a pass is laid out: rows, slots and attention groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from forerun.cache.sequence import Window
from forerun.engine.scheduler import Work
from forerun.models.base import AttentionGroup, PassInput
from forerun.types import Draft


@dataclass(frozen=True, slots=True)
class Part:
    """One request's rows of a pass: committed ones from row ``first``, then the draft's.

    ``first_logit`` is where the anchor's logits lie among the pass's logits; the draft's follow.
    """

    work: Work
    draft: Draft
    window: Window
    first: int
    first_logit: int

    @property
    def num_rows(self) -> int:
        """Rows of the pass that belong to this request."""
        return self.work.num_committed + len(self.draft)


@dataclass(frozen=True, slots=True)
class Layout:
    """A pass and whose rows are where. The order of the parts is the order of the works: nothing else moves a row."""

    batch: PassInput
    parts: tuple[Part, ...]


def lay_out(works: Sequence[Work], drafts: Sequence[Draft], windows: Sequence[Window]) -> Layout:
    """One flat batch of all parts in order: per request the committed rows, then the draft's rows."""
    tokens: list[int] = []
    positions: list[int] = []
    owners: list[int] = []
    groups: list[AttentionGroup] = []
    logit_rows: list[int] = []
    parts: list[Part] = []
    for work, draft, window in zip(works, drafts, windows, strict=True):
        part = Part(work, draft, window, len(tokens), len(logit_rows))
        parts.append(part)
        end = window.start + work.num_committed
        anchor = part.first + work.num_committed - 1
        tokens += work.request.tokens(window.start, end)
        tokens += draft.tokens
        if draft.is_chain:
            positions += range(window.start, end + len(draft))
        else:
            positions += range(window.start, end)
            positions += [end - 1 + depth for depth in draft.depths()[1:]]
        owners += [window.sequence.id] * part.num_rows
        groups += _groups(part)
        if work.is_complete:
            logit_rows += range(anchor, anchor + 1 + len(draft))
    batch = PassInput(
        _tensor(tokens),
        _tensor(positions),
        windows[0].slots if len(windows) == 1 else torch.cat([window.slots for window in windows]),
        tuple(owners),
        tuple(groups),
        tuple(logit_rows),
        {part.window.sequence.id: part.work.num_committed for part in parts},
    )
    return Layout(batch, tuple(parts))


def _tensor(ids: list[int]) -> Tensor:
    # torch.tensor looks at every element of a list by itself.
    return torch.from_numpy(np.array(ids, dtype=np.int64))


def _groups(part: Part) -> list[AttentionGroup]:
    """One group for a chain; for a tree one per leaf, each row in the first group whose path holds it."""
    num_committed, draft, window = part.work.num_committed, part.draft, part.window
    if draft.is_chain:
        rows = tuple(range(part.first, part.first + part.num_rows))
        return [AttentionGroup(rows, window.all_slots)]
    groups = []
    placed: set[int] = set()
    for leaf, children in enumerate(draft.children()):
        if children:
            continue
        # The anchor is the last committed row; draft row k lies k rows behind it.
        path = [*range(num_committed - 1), *(num_committed - 1 + row for row in draft.path_to(leaf))]
        rows = tuple(part.first + row for row in path if row not in placed)
        placed.update(path)
        groups.append(AttentionGroup(rows, torch.cat([window.prefix_slots, window.slots[path]])))
    return groups
