"""Plotly figures for the page: data in JSON, drawn by ``report.js`` in the reader's colours."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import plotly.graph_objects as go

from forerun.report.markup import Child, Html, details, paragraph, tag

# Mid tones that keep apart for every kind of colour vision (after Okabe and Ito) on white and on near-black.
SERIES: Final = ("#2f7fc1", "#d9730d", "#1a9a7c", "#b05fa3", "#a08a00", "#c2483f", "#5b8aa6", "#7d7d7d")
MARKERS: Final = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "cross")

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


@dataclass
class Plot:
    """One figure of the page: traces, axes and what a reader who can't see it is told."""

    id: str
    label: str
    x: Axis
    y: Axis
    height: int = 300
    traces: list[Any] = field(default_factory=list)
    shapes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, trace: Any) -> None:
        """One more trace."""
        self.traces.append(trace)

    def add_level(self, y: float) -> None:
        """A thin line across the plot, such as the speed of plain decoding."""
        self.shapes.append(
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": {"width": 1.5}}
        )

    def add_diagonal(self, low: float, high: float) -> None:
        """A thin line where x equals y."""
        self.shapes.append(
            {"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "line": {"width": 1, "dash": "dot"}}
        )

    def html(
        self, caption: Sequence[Child], data: Html, *, title: str = "", open_text: str = "The same as a table"
    ) -> Html:
        """The figure with its caption, and its data as a real table to unfold."""
        figure = go.Figure(self.traces, go.Layout(template="none", shapes=self.shapes, showlegend=False))
        figure.update_layout(xaxis=self.x.layout(), yaxis=self.y.layout())
        text = json.dumps(json.loads(figure.to_json()), separators=(",", ":"), ensure_ascii=False)
        return tag(
            "figure",
            tag("h3", title) if title else None,
            tag(
                "div",
                id=self.id,
                class_="plot",
                role="img",
                aria_label=self.label,
                style=f"height:{self.height}px",
                data_figure=f"{self.id}-data",
            ),
            # A script element ends at the first "</", whatever its type.
            tag("script", Html(text.replace("<", "\\u003c")), type="application/json", id=f"{self.id}-data"),
            tag("figcaption", *caption),
            details(open_text, data),
        )


def plain(text: str) -> str:
    """Text from data for a label: Plotly reads a little HTML there, so it is escaped."""
    return html.escape(text, quote=False)


def line(
    name: str,
    x: Sequence[float | None],
    y: Sequence[float | None],
    *,
    series: int,
    hover: Sequence[str] = (),
    is_dashed: bool = False,
    is_open: bool = False,
    errors: tuple[Sequence[float], Sequence[float]] | None = None,
    mode: str = "lines+markers",
) -> Any:
    """A line with markers in the colour and shape of its series. ``errors`` reach below and above each point."""
    colour = colour_of(series)
    symbol = MARKERS[series % len(MARKERS)] + ("-open" if is_open else "")
    bars = None
    if errors is not None:
        below, above = errors
        bars = {"type": "data", "symmetric": False, "array": list(above), "arrayminus": list(below), "width": 3}
        bars |= {"color": colour, "thickness": 1.5}
    return go.Scatter(
        name=plain(name),
        x=list(x),
        y=list(y),
        mode=mode,
        line={"color": colour, "width": 2, "dash": "dot" if is_dashed else "solid"},
        marker={"color": colour, "size": 8, "symbol": symbol, "line": {"color": colour, "width": 1.5}},
        error_y=bars,
        hovertext=[plain(text) for text in hover] or None,
        hoverinfo="text" if hover else None,
    )


def colour_of(series: int) -> str:
    """The colour of a series, the same in every figure of the page."""
    return SERIES[series % len(SERIES)]


def legend(entries: Iterable[tuple[int, str]], *notes: str) -> Html:
    """What the colours mean, once for many small figures."""
    chips = [
        tag("li", tag("span", class_="chip", style=f"background:{colour_of(series)}"), name) for series, name in entries
    ]
    return tag("ul", *chips, *(tag("li", note, class_="note") for note in notes), class_="legend")


def small_multiples(figures: Iterable[Html]) -> Html:
    """Figures side by side where there is room."""
    return tag("div", *figures, class_="multiples")


def caption_line(*parts: str) -> Html:
    """One line of a caption."""
    return paragraph(" ".join(part for part in parts if part))
