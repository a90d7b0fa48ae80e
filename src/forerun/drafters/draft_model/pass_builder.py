"""Collects the rows of one pass of the draft model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from forerun.models.base import AttentionGroup, PassInput


class PassBuilder:
    """Rows of many requests; one attention group per run of rows."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._positions: list[int] = []
        self._slots: list[Tensor] = []
        self._owners: list[int] = []
        self._groups: list[AttentionGroup] = []
        self._logit_rows: list[int] = []
        self._num_committed: dict[int, int] = {}

    @property
    def num_rows(self) -> int:
        """Rows so far."""
        return len(self._tokens)

    def add(
        self, owner: int, tokens: Sequence[int], slots: Tensor, *, advances_state: bool, wants_logits: bool
    ) -> None:
        """A run of rows on the path whose positions lie in ``slots`` [positions]: the path's last ``len(tokens)``.

        Only the last row's logits can be wanted. ``advances_state``: recurrent layers keep the state behind the run.
        """
        first = self.num_rows
        self._tokens += tokens
        self._positions += range(len(slots) - len(tokens), len(slots))
        self._slots.append(slots[len(slots) - len(tokens) :])
        self._owners += [owner] * len(tokens)
        self._groups.append(AttentionGroup(tuple(range(first, self.num_rows)), slots))
        self._num_committed[owner] = self._num_committed.get(owner, 0) + len(tokens) * int(advances_state)
        if wants_logits:
            self._logit_rows.append(self.num_rows - 1)

    def build(self) -> PassInput:
        """The pass."""
        return PassInput(
            torch.tensor(self._tokens),
            torch.tensor(self._positions),
            torch.cat(self._slots),
            tuple(self._owners),
            tuple(self._groups),
            tuple(self._logit_rows),
            self._num_committed,
        )
