"""What one matched context offers: the most frequent path, or the most probable tree, behind it."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from forerun.drafters.suffix.continuations import Continuations, State


@dataclass(frozen=True, slots=True)
class Candidate:
    """Tokens with parent rows as in ``Draft``; ``score`` is the sum of ``probabilities``: the expected length."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    score: float = 0.0


def most_frequent_path(source: Continuations[State], state: State, num_tokens: int, min_token_prob: float) -> Candidate:
    """Follow the token seen most often while the whole path keeps ``min_token_prob``."""
    num_matches = source.count(state)
    lowest = _lowest_count(num_matches, min_token_prob)
    tokens, counts = source.most_frequent_path(state, num_tokens, lowest)
    return _candidate(tokens, list(range(len(tokens))), counts, num_matches)


def most_probable_tree(
    source: Continuations[State], state: State, num_rows: int, max_depth: int, min_token_prob: float
) -> Candidate:
    """Best-first expansion: the ``num_rows`` most probable tokens at most ``max_depth`` deep, parents first."""
    num_matches = source.count(state)
    lowest = _lowest_count(num_matches, min_token_prob)
    tokens: list[int] = []
    parents: list[int] = []
    counts: list[int] = []
    # (-count, order of discovery, token, state behind it, parent row, depth)
    frontier: list[tuple[int, int, int, State, int, int]] = []
    num_found = 0

    def discover(state: State, parent: int, depth: int) -> None:
        nonlocal num_found
        if depth > max_depth:
            return
        for token, count, behind in source.followers(state):
            if count < lowest:
                break
            num_found += 1
            heapq.heappush(frontier, (-count, num_found, token, behind, parent, depth))

    discover(state, 0, 1)
    while frontier and len(tokens) < num_rows:
        negative, _, token, behind, parent, depth = heapq.heappop(frontier)
        tokens.append(token)
        parents.append(parent)
        counts.append(-negative)
        discover(behind, len(tokens), depth + 1)
    return _candidate(tokens, parents, counts, num_matches)


def _lowest_count(num_matches: int, min_token_prob: float) -> int:
    """The smallest count that is at least ``min_token_prob`` of all matches, as a division says."""
    lowest = math.ceil(min_token_prob * num_matches)
    if (lowest - 1) / num_matches >= min_token_prob:
        return lowest - 1
    return lowest if lowest / num_matches >= min_token_prob else lowest + 1


def _candidate(tokens: list[int], parents: list[int], counts: list[int], num_matches: int) -> Candidate:
    """Counts telescope along a path: a token's probability is its count over the match's."""
    probabilities = tuple([count / num_matches for count in counts])
    return Candidate(tuple(tokens), tuple(parents), probabilities, sum(counts) / num_matches)
