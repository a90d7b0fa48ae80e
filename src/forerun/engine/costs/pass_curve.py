"""Seconds of a pass at any size, from a few measured ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from forerun.engine.costs.cost_point import CostPoint
from forerun.engine.costs.interpolation import Estimate, Line, between


class PassCurve:
    """C(rows, sequences, context): linear between measured rows, in proportion to the rows beyond the last.

    Longer contexts add the same for every sequence and token, as told by the fewest sequences that were measured at
    more than the shortest context; where there are none, they add nothing.
    """

    def __init__(self, points: Iterable[CostPoint]) -> None:
        beds: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
        for point in points:
            beds[point.sequences, point.context].append((point.rows, point.seconds))
        if not beds:
            raise ValueError("a curve needs at least one measured pass")
        self.rows = tuple(sorted({int(rows) for measured in beds.values() for rows, _ in measured}))
        lines = {bed: Line.through(measured) for bed, measured in beds.items()}
        self._near = min(context for _, context in lines)
        self._base = {sequences: line for (sequences, context), line in lines.items() if context == self._near}
        far = [bed for bed in lines if bed[1] > self._near and bed[0] in self._base]
        self._far = max(far, key=lambda bed: (-bed[0], bed[1]), default=None)
        self._far_line = lines[self._far] if self._far else None

    def seconds(self, rows: int, sequences: int, context: float) -> float:
        """Seconds of a pass of ``rows`` rows in all over ``sequences`` sequences of ``context`` tokens each."""
        base = [(float(size), Estimate(_at(line, rows))) for size, line in self._base.items()]
        longer = max(0.0, context - self._near) * sequences
        return between(base, sequences).seconds + longer * self._per_token(rows / sequences)

    def _per_token(self, rows_per_sequence: float) -> float:
        """What one token more of one sequence's context adds."""
        if self._far is None or self._far_line is None:
            return 0.0
        sequences, context = self._far
        rows = rows_per_sequence * sequences
        added = _at(self._far_line, rows) - _at(self._base[sequences], rows)
        return max(0.0, added) / sequences / (context - self._near)


def _at(line: Line, rows: float) -> float:
    return line.at(rows).seconds * max(1.0, rows / line.places[-1])
