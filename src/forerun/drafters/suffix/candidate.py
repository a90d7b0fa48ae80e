"""What one matched place in a suffix tree offers: the most frequent path, or the most probable tree, behind it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from forerun.drafters.suffix.suffix_node import SuffixNode
from forerun.drafters.suffix.suffix_tree import SuffixTree


@dataclass(frozen=True, slots=True)
class Place:
    """The first ``offset`` tokens of ``node`` end a match of ``match_length`` tokens."""

    tree: SuffixTree
    node: SuffixNode
    offset: int
    match_length: int

    def highest_score(self, num_tokens: int) -> float:
        """What no candidate of ``num_tokens`` exceeds: no token behind the match is likelier than the first."""
        first = self.node if self.offset < self.node.length else self.node.best
        return 0.0 if first is None else num_tokens * first.count / self.node.count


@dataclass(frozen=True, slots=True)
class Candidate:
    """Tokens with parent rows as in ``Draft``; ``score`` is the sum of ``probabilities``: the expected length."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    score: float = 0.0


def most_frequent_path(place: Place, budget: int, min_token_prob: float) -> Candidate:
    """Follow the child seen most often while the whole path keeps ``min_token_prob``."""
    tree, node, offset = place.tree, place.node, place.offset
    num_matches = node.count
    tokens: list[int] = []
    counts: list[int] = []
    while len(tokens) < budget:
        if offset == node.length:
            if node.best is None or node.best.count / num_matches < min_token_prob:
                break
            node, offset = node.best, 0
        tokens.append(tree.token(node, offset))
        counts.append(node.count)
        offset += 1
    return _candidate(tokens, list(range(len(tokens))), counts, num_matches)


def most_probable_tree(place: Place, budget: int, max_depth: int, min_token_prob: float) -> Candidate:
    """Best-first expansion: the ``budget`` most probable tokens at most ``max_depth`` deep, parents first."""
    tree, num_matches = place.tree, place.node.count
    tokens: list[int] = []
    parents: list[int] = []
    counts: list[int] = []
    # (-count, order of discovery, node, tokens of it used, parent row, depth)
    frontier: list[tuple[int, int, SuffixNode, int, int, int]] = []
    num_found = 0

    def discover(node: SuffixNode, offset: int, parent: int, depth: int) -> None:
        nonlocal num_found
        if depth > max_depth:
            return
        is_inside = offset < node.length
        for child in [node] if is_inside else node.ranked_children():
            if child.count / num_matches < min_token_prob:
                break
            num_found += 1
            heapq.heappush(frontier, (-child.count, num_found, child, offset if is_inside else 0, parent, depth))

    discover(place.node, place.offset, 0, 1)
    while frontier and len(tokens) < budget:
        _, _, node, offset, parent, depth = heapq.heappop(frontier)
        tokens.append(tree.token(node, offset))
        parents.append(parent)
        counts.append(node.count)
        discover(node, offset + 1, len(tokens), depth + 1)
    return _candidate(tokens, parents, counts, num_matches)


def _candidate(tokens: list[int], parents: list[int], counts: list[int], num_matches: int) -> Candidate:
    """Counts telescope along a path: a token's probability is its count over the match's."""
    probabilities = tuple(count / num_matches for count in counts)
    return Candidate(tuple(tokens), tuple(parents), probabilities, sum(counts) / num_matches)
