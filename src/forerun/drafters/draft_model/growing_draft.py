"""A draft while it grows depth by depth."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from forerun.types import Draft

ANCHOR = 0


class GrowingDraft:
    """Proposed tokens with the log-probability of their whole path, parents first; a chain has one child per row.

    Row 0 is the anchor, as in ``Draft``. Values never rise along a path and equal ones keep their order of discovery,
    so the best rows always hold their parents.
    """

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows
        self.tokens: list[int] = [-1]
        self._parents: list[int] = [-1]
        self._values: list[float] = [0.0]
        self._newest: list[int] = [ANCHOR]

    def path(self, row: int) -> list[int]:
        """Rows behind the anchor that lead to ``row``, itself included."""
        path = []
        while row != ANCHOR:
            path.append(row)
            row = self._parents[row]
        return path[::-1]

    def frontier(self, width: int) -> list[int]:
        """The best ``width`` rows of the newest depth that can still be part of the draft, ascending."""
        able = set(self._best_rows())
        rows = [row for row in self._newest if row in able]
        return sorted(heapq.nsmallest(width, rows, key=lambda row: (-self._values[row], row)))

    def grow(self, children: Sequence[tuple[int, Sequence[tuple[int, float]]]]) -> None:
        """The next depth: per row of the frontier its children's tokens with their log-probabilities, best first."""
        self._newest = []
        for parent, tokens in children:
            for token, value in tokens:
                self._newest.append(len(self.tokens))
                self.tokens.append(token)
                self._parents.append(parent)
                self._values.append(self._values[parent] + min(value, 0.0))

    def draft(self, source: str) -> Draft:
        """The best ``num_rows`` rows."""
        rows = sorted(row for row in self._best_rows() if row != ANCHOR)
        renumbered = {row: index for index, row in enumerate([ANCHOR, *rows])}
        return Draft(
            tuple(self.tokens[row] for row in rows),
            tuple(renumbered[self._parents[row]] for row in rows),
            source=source,
        )

    def _best_rows(self) -> list[int]:
        """The anchor and the ``num_rows`` best behind it."""
        return heapq.nsmallest(1 + self.num_rows, range(len(self.tokens)), key=lambda row: (-self._values[row], row))
