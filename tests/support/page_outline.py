"""What a report page says, without how it looks: headings, text, tables, figures. It checks the nesting on the way."""

import json
from html.parser import HTMLParser

VOID = {"meta", "br", "col"}
BLOCKS = {"h1", "h2", "h3", "p", "li", "caption", "summary", "pre", "title"}
FIGURES = {"th", "td"}


class PageOutline(HTMLParser):
    """Lines of text, one per block or table row; every element and attribute seen; scripts by type."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.map_cells: list[tuple[str, str]] = []
        self._stack: list[tuple[str, dict[str, str]]] = []
        self._text: list[str] = []
        self._row: list[str] = []
        self.feed(page)
        self.close()
        assert not self._stack, f"never closed: {self._stack}"

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def handle_starttag(self, tag, attrs):
        known = {name: value or "" for name, value in attrs}
        self.elements.append((tag, known))
        if tag in BLOCKS | FIGURES | {"script", "style"}:
            self._text = []
        if tag == "tr":
            self._row = []
        if tag == "section":
            self.lines += ["", f"== {known.get('id')}"]
        if "plot" in known.get("class", "").split():
            self.lines.append(f"plot {known['id']}: {known['aria-label']}")
        if tag not in VOID:
            self._stack.append((tag, known))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        opened, attributes = self._stack.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"
        text = " ".join("".join(self._text).split())
        if tag in FIGURES:
            self._row.append(text)
            classes = attributes.get("class", "").split()
            if "cell" in classes:
                self.map_cells.append((" ".join(classes[1:]), text))
                self._row[-1] = f"{text} [{' '.join(classes[1:])}]"
        elif tag == "tr":
            self.lines.append(" | ".join(self._row))
        elif tag in BLOCKS:
            self.lines.append(f"{'#' * int(tag[1])} {text}" if tag in ("h1", "h2", "h3") else text)
        elif tag == "script":
            self.scripts.append((attributes, "".join(self._text)))
            if attributes.get("type") == "application/json":
                self.lines += _traces(json.loads("".join(self._text)))
        if tag in BLOCKS | FIGURES | {"script", "style"}:
            self._text = []

    def handle_data(self, data):
        self._text.append(data)
        if self._stack and self._stack[-1][0] == "small":
            self._text.insert(-1, " ")


def _traces(figure):
    return [
        f"  trace {trace['name']} ({trace['mode']}): "
        + ", ".join(f"{_short(x)}:{_short(y)}" for x, y in zip(trace["x"], trace["y"], strict=True))
        for trace in figure["data"]
    ]


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)
