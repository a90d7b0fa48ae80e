"""What one matched context offers: the most frequent path, or the most probable tree, behind it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from forerun.drafters.suffix.continuations import Continuations, State
from forerun.types import Draft


class Candidate(NamedTuple):
    """Tokens with parent rows as in ``Draft``, and how many of ``num_matches`` each of them followed.

    ``score`` is the sum of the tokens' probabilities: the expected number of tokens kept.
    """

    tokens: Sequence[int] = ()
    parents: Sequence[int] = ()
    counts: Sequence[int] = ()
    num_matches: int = 1
    score: float = 0.0

    def draft(self, source: str) -> Draft:
        """The same as a draft. Counts telescope along a path: a token's probability is its count over the match's."""
        survival = tuple([count / self.num_matches for count in self.counts])
        return Draft(tuple(self.tokens), tuple(self.parents), survival=survival, source=source)


def most_frequent_path(source: Continuations[State], state: State, num_tokens: int, min_token_prob: float) -> Candidate:
    """Follow the token seen most often while the whole path keeps ``min_token_prob``."""
    num_matches = source.count(state)
    lowest = _lowest_count(num_matches, min_token_prob)
    tokens, counts = source.most_frequent_path(state, num_tokens, lowest)
    return Candidate(tokens, range(len(tokens)), counts, num_matches, sum(counts) / num_matches)


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
        for token, count, behind in source.followers(state, lowest):
            num_found += 1
            heapq.heappush(frontier, (-count, num_found, token, behind, parent, depth))

    discover(state, 0, 1)
    while frontier and len(tokens) < num_rows:
        negative, _, token, behind, parent, depth = heapq.heappop(frontier)
        tokens.append(token)
        parents.append(parent)
        counts.append(-negative)
        discover(behind, len(tokens), depth + 1)
    return Candidate(tokens, parents, counts, num_matches, sum(counts) / num_matches)


def _lowest_count(num_matches: int, min_token_prob: float) -> int:
    """The smallest count that is at least ``min_token_prob`` of all matches, as a division says."""
    lowest = math.ceil(min_token_prob * num_matches)
    if (lowest - 1) / num_matches >= min_token_prob:
        return lowest - 1
    return lowest if lowest / num_matches >= min_token_prob else lowest + 1
