"""Ratios drawn on a line: doubling is as far to the right of 1 as halving is to the left."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from forerun.report.markup import Html, tag


@dataclass(frozen=True, slots=True)
class LogScale:
    """Where a ratio lies between ``low`` and ``high``."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> LogScale:
        """A scale that holds 0.8, 1.25 and every value, with a little room."""
        known = [0.8, 1.25, *values]
        return cls(min(known) / 1.06, max(known) * 1.06)

    def percent(self, value: float) -> float:
        """Distance from the left end, in percent of the width."""
        return 100 * math.log(value / self.low) / math.log(self.high / self.low)

    def dumbbell(self, start: float, end: float) -> Html:
        """From one ratio (a hollow dot) to another (a filled one)."""
        return self._track(self._bar(start, end, "bar"), self._at(start, "dot"), self._at(end, "dot filled"))

    def interval(self, low: float, median: float, high: float) -> Html:
        """An interval with its median."""
        return self._track(self._bar(low, high, "interval"), self._at(median, "median"))

    def _track(self, *marks: Html) -> Html:
        """Marks over the place of plain decoding. Decoration: the numbers stand beside it."""
        return tag("span", self._at(1.0, "one"), *marks, class_="track", aria_hidden="true")

    def _at(self, value: float, kind: str) -> Html:
        return tag("span", class_=kind, style=f"left:{self.percent(value):.1f}%")

    def _bar(self, start: float, end: float, kind: str) -> Html:
        left, right = self.percent(min(start, end)), self.percent(max(start, end))
        return tag("span", class_=kind, style=f"left:{left:.1f}%;width:{right - left:.1f}%")
