"""The report of a tune: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from plotly.offline import get_plotlyjs

from forerun.drafters.base import MethodInfo
from forerun.drafters.registry import METHODS
from forerun.errors import ForerunError
from forerun.report.markup import Html, joined, tag
from forerun.report.sections import (
    acceptance,
    conditions,
    costs,
    curves,
    dependencies,
    figures,
    gaps,
    inflation,
    looping,
    map,
    predicted,
    summary,
    verdicts,
)
from forerun.sweep.results import TuneResult

# Whatever a model's id or a prompt may hold, the browser is told to fetch nothing at all.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
_LINKS: Final = (
    ("map", "Map"),
    ("verdicts", "What to run"),
    ("curves", "Speed-up over N"),
    ("acceptance", "Acceptance"),
    ("costs", "Costs"),
    ("predicted", "Predicted"),
    ("figures", "All figures"),
    ("conditions", "Conditions"),
    ("gaps", "Not measured"),
)


def write_report(result: TuneResult, path: Path) -> None:
    """Writes the page whole or not at all. Raises ForerunError where there is no room or no permission."""
    text = page(result, [method.info for method in METHODS.values()])
    partial: str | None = None
    try:
        handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except OSError as error:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)
        found = error.strerror or str(error)
        raise ForerunError(f"to write {path}", found, "free some space or choose another --out") from error


def page(result: TuneResult, methods: Sequence[MethodInfo]) -> str:
    """The whole page. ``methods`` are those of this build."""
    title = f"forerun tune: {summary.title(result)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", title),
        tag("style", _own("report.css")),
    )
    body = tag(
        "body",
        tag("a", "Skip to the map", href="#map", class_="skip"),
        tag(
            "main",
            tag("div", summary.render(result), inflation.render(result), map.render(result), class_="first"),
            _navigation(),
            verdicts.render(result),
            dependencies.render(methods),
            curves.render(result),
            acceptance.render(result),
            costs.render(result),
            predicted.render(result),
            figures.render(result),
            looping.render(result),
            conditions.render(result),
            gaps.render(result),
        ),
        tag("noscript", tag("p", "Figures need JavaScript. Every number is in the tables.")),
        tag("script", Html(get_plotlyjs())),
        tag("script", _own("report.js")),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _navigation() -> Html:
    links = [tag("li", tag("a", name, href=f"#{identifier}")) for identifier, name in _LINKS]
    return tag("nav", tag("ul", joined(links)), aria_label="Parts of this report")


def _own(name: str) -> Html:
    """A style sheet or script that ships with this package."""
    return Html((resources.files("forerun.report") / name).read_text(encoding="utf-8"))
