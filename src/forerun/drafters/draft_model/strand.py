"""One request's part of a drafting round."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from forerun.cache.sequence import Window
from forerun.drafters.draft_model.growing_draft import ANCHOR, GrowingDraft
from forerun.drafters.draft_model.state import DraftModelState


@dataclass(slots=True)
class Strand:
    """A request that drafts up to ``num_tokens`` deep, ``width`` rows a depth, in one window of the drafter's pool.

    The window's first ``num_pending`` rows are committed tokens; each drafted row that is run takes the next one.
    """

    state: DraftModelState
    num_tokens: int
    width: int
    growing: GrowingDraft
    window: Window
    num_pending: int
    run_rows: list[int] = field(default_factory=list)

    @property
    def is_chain(self) -> bool:
        """Whether no row has two children."""
        return self.width == 1

    def next_rows(self, depth: int) -> list[int]:
        """Rows to run so that tokens of ``depth`` can be drafted."""
        if depth > self.num_tokens:
            return []
        return [ANCHOR] if depth == 1 else self.growing.frontier(self.width)

    def slots_to(self, row: int) -> Tensor:
        """Pool slots of every position up to ``row``; a row that was not run before takes its slot now."""
        if row != ANCHOR and row not in self.run_rows:
            self.run_rows.append(row)
        path = [self.num_pending + self.run_rows.index(ancestor) for ancestor in self.growing.path(row)]
        return torch.cat([self.window.prefix_slots, self.window.slots[: self.num_pending], self.window.slots[path]])

    def tokens_of(self, rows: list[int]) -> list[int]:
        """Drafted tokens of ``rows``."""
        return [self.growing.tokens[row] for row in rows]
