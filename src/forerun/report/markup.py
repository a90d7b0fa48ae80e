"""Markup that escapes by construction: text becomes part of a page only through ``tag``, which escapes it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final


class Html(str):
    """Markup that is safe to place in a page. Only this module and files of our own make it."""

    __slots__ = ()


Child = Html | str | None
Attribute = str | int | float | bool | None

_VOID: Final = frozenset({"br", "col", "meta", "line", "circle", "rect", "path"})


def escaped(text: str) -> Html:
    """Text from anywhere as markup."""
    return Html(html.escape(text))


def joined(children: Iterable[Child]) -> Html:
    """Children one after another; plain text is escaped, ``None`` left out."""
    return Html(
        "".join(child if isinstance(child, Html) else escaped(child) for child in children if child is not None)
    )


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. ``class_`` stands for ``class``, other underscores for dashes; ``None`` and ``False`` are left "
    "out."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>" if name in ("br", "col", "meta") else f"<{name}{written}/>")
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def paragraph(*children: Child, class_: str | None = None) -> Html:
    """A paragraph."""
    return tag("p", *children, class_=class_)


def section(identifier: str, title: str, *children: Child) -> Html:
    """A titled part of the page that can be linked to."""
    heading = tag("h2", title, id=f"{identifier}-title")
    return tag("section", heading, *children, id=identifier, aria_labelledby=f"{identifier}-title")


def details(summary: Child, *children: Child, is_open: bool = False) -> Html:
    """Something that unfolds."""
    return tag("details", tag("summary", summary), *children, open=is_open)


def table(
    caption: str,
    head: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    *,
    num_texts: int = 1,
    class_: str | None = None,
) -> Html:
    """A table that scrolls sideways on its own where the page is narrow.

    The first column names its row. The first ``num_texts`` columns hold text, the others figures.
    """

    def kind(column: int) -> str | None:
        return None if column < num_texts else "figure"

    header = tag("tr", *(tag("th", cell, scope="col", class_=kind(column)) for column, cell in enumerate(head)))
    body = [
        tag(
            "tr",
            *(
                tag("td", cell, class_=kind(column)) if column else tag("th", cell, scope="row")
                for column, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    content = tag("table", tag("caption", caption), tag("thead", header), tag("tbody", *body), class_=class_)
    return scrolling(caption, content)


def scrolling(label: str, content: Html) -> Html:
    """A wide element that scrolls on its own, by touch and by keyboard."""
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)
