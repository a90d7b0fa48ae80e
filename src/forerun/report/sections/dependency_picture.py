"""Small drawings of the dependency structures: three drafted tokens, and what each waits for."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from forerun.report.markup import Html, joined, tag
from forerun.types import Dependency

_COLUMNS: Final = (40, 100, 160)
_TOKENS, _SOURCE = 20, 72


def picture(dependency: Dependency, title: str) -> Html:
    """The drawing of one structure, in the colours of the page."""
    is_sequential = dependency is Dependency.SEQUENTIAL
    is_chained = dependency in (Dependency.SEQUENTIAL, Dependency.PARALLEL_CORRECTED)
    feeds = [_up(x) for x in (_COLUMNS[:1] if is_sequential else _COLUMNS)]
    kind = "arrow" if is_sequential else "arrow light"
    links = [_right(left, right, kind) for left, right in pairwise(_COLUMNS)] if is_chained else []
    return tag(
        "svg",
        tag("title", f"{title}: what each of three drafted tokens waits for"),
        _source("text seen before" if dependency is Dependency.NONE else "committed so far"),
        *feeds,
        *links,
        *(_token(x, number) for number, x in enumerate(_COLUMNS, start=1)),
        viewBox="0 0 200 90",
        role="img",
        class_="picture",
    )


def _token(x: int, number: int) -> Html:
    box = tag("rect", x=x - 15, y=_TOKENS - 15, width=30, height=30, rx=6, class_="token")
    return joined([box, tag("text", str(number), x=x, y=_TOKENS + 5, class_="name")])


def _source(label: str) -> Html:
    box = tag("rect", x=12, y=_SOURCE - 12, width=176, height=24, rx=12, class_="source")
    return joined([box, tag("text", label, x=100, y=_SOURCE + 4, class_="name")])


def _up(x: int) -> Html:
    top, bottom = _TOKENS + 18, _SOURCE - 13
    head = tag("path", d=f"M{x - 4} {top + 6}L{x} {top}L{x + 4} {top + 6}", class_="arrow")
    return joined([tag("line", x1=x, y1=bottom, x2=x, y2=top, class_="arrow"), head])


def _right(left: int, right: int, kind: str) -> Html:
    start, end = left + 17, right - 18
    head = tag("path", d=f"M{end - 6} {_TOKENS - 4}L{end} {_TOKENS}L{end - 6} {_TOKENS + 4}", class_="arrow")
    return joined([tag("line", x1=start, y1=_TOKENS, x2=end, y2=_TOKENS, class_=kind), head])
