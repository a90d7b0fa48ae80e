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

    def track(self, start: float, end: float, dots: Iterable[tuple[float, str]]) -> Html:
        """A bar from ``start`` to ``end`` with dots of the given classes, and a mark where plain decoding is.

        It is decoration: the numbers stand beside it.
        """
        left, right = self.percent(min(start, end)), self.percent(max(start, end))
        return tag(
            "span",
            tag("span", class_="one", style=f"left:{self.percent(1.0):.1f}%"),
            tag("span", class_="bar", style=f"left:{left:.1f}%;width:{right - left:.1f}%"),
            *(tag("span", class_=f"dot {kind}", style=f"left:{self.percent(value):.1f}%") for value, kind in dots),
            class_="track",
            aria_hidden="true",
        )
