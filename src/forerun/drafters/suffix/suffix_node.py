"""One node of a suffix tree."""

from __future__ import annotations


class SuffixNode:
    """A run of tokens that always follow one another, seen ``count`` times after the path above.

    The run is ``length`` tokens of the tree's text from position ``start``, which is always its newest occurrence.
    ``best`` is the child seen most often, among equals the one seen last.
    """

    __slots__ = ("best", "children", "count", "length", "parent", "start")

    def __init__(self, count: int, start: int, length: int, parent: SuffixNode | None) -> None:
        self.count = count
        self.start = start
        self.length = length
        self.parent = parent
        self.children: dict[int, SuffixNode] = {}
        self.best: SuffixNode | None = None

    def ranked_children(self, lowest_count: int = 0) -> list[SuffixNode]:
        """Children seen so often at least by count, then recency, best first: of hundreds, few are worth sorting."""
        chosen = [child for child in self.children.values() if child.count >= lowest_count]
        if len(chosen) > 1:
            chosen.sort(key=_by_count, reverse=True)
        return chosen


def _by_count(child: SuffixNode) -> tuple[int, int]:
    return child.count, child.start
