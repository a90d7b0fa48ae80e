"""Plotly figures for the page: data in JSON, drawn by ``report.js`` in the reader's colours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import plotly.graph_objects as go

from forerun.report.axis import Axis, plain
from forerun.report.markup import Child, Html, details, paragraph, tag

# Mid tones that keep apart for every kind of colour vision (after Okabe and Ito) on white and on near-black.
SERIES: Final = ("#2f7fc1", "#d9730d", "#1a9a7c", "#b05fa3", "#a08a00", "#c2483f", "#5b8aa6", "#7d7d7d")
MARKERS: Final = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "cross")


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


def line(
    name: str,
    x: Sequence[float | None],
    y: Sequence[float | None],
    *,
    series: int,
    hover: Sequence[str] = (),
    is_dashed: bool = False,
    is_open: bool = False,
    is_hidden: bool = False,
    errors: tuple[Sequence[float], Sequence[float]] | None = None,
    mode: str = "lines+markers",
) -> Any:
    """A line with markers in the colour and shape of its series. ``errors`` reach below and above each point.

    ``is_hidden`` leaves the markers out and keeps the bars.
    """
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
        marker={
            "color": colour,
            "size": 8,
            "symbol": symbol,
            "opacity": 0 if is_hidden else 1,
            "line": {"color": colour, "width": 1.5},
        },
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
