"""Axes of the page's figures, in Plotly's words."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

# From fine to coarse: the first that leaves room for its labels is taken.
_RATIO_TICKS: Final = (
    tuple(k / 20 for k in range(1, 40)),
    tuple(k / 10 for k in range(1, 40)),
    (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0),
    (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    (0.01, 0.1, 1.0, 10.0, 100.0),
)


@dataclass(frozen=True)
class Axis:
    """An axis: its title with the unit, whether it is logarithmic, and where its ticks are."""

    title: str
    is_log: bool = False
    ticks: tuple[float, ...] = ()
    tick_labels: tuple[str, ...] = ()
    is_percent: bool = False
    is_from_zero: bool = False
    low: float | None = None
    high: float | None = None

    @classmethod
    def of_ratios(cls, title: str, values: Iterable[float]) -> Axis:
        """Speed against off: logarithmic, with 1 and all values inside, and as many labels as stay readable."""
        known = [1.0, *values]
        low, high = min(known) / 1.05, max(known) * 1.05
        inside = ([tick for tick in ticks if low <= tick <= high] for ticks in _RATIO_TICKS)
        ticks = next((ticks for ticks in inside if len(ticks) <= 7), [1.0])
        return cls(title, is_log=True, ticks=tuple(ticks), low=low, high=high)

    @classmethod
    def of_counts(cls, title: str, values: Iterable[int]) -> Axis:
        """Whole numbers from 1 on: every value has its tick, unless there are too many."""
        known = sorted(set(values))
        if len(known) > 8:
            known = [known[0], *(value for value in known if value % 5 == 0)]
        return cls(title, ticks=tuple(known))

    def layout(self) -> dict[str, Any]:
        """In Plotly's words."""
        found: dict[str, Any] = {"title": {"text": plain(self.title)}, "type": "log" if self.is_log else "linear"}
        if self.ticks:
            labels = self.tick_labels or tuple(f"{tick:g}" for tick in self.ticks)
            found |= {"tickmode": "array", "tickvals": list(self.ticks), "ticktext": list(labels)}
        if self.is_percent:
            found |= {"tickformat": ".0%", "range": [0, 1.03]}
        if self.is_from_zero:
            found["rangemode"] = "tozero"
        if self.low is not None and self.high is not None:
            ends = [self.low, self.high]
            found["range"] = [math.log10(end) for end in ends] if self.is_log else ends
        return found


def plain(text: str) -> str:
    """Text from data for a label: Plotly reads a little HTML there, so it is escaped."""
    return html.escape(text, quote=False)
