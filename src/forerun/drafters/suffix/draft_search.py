"""Which of a text's matches to draft from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forerun.corpus.match import Match
from forerun.drafters.base import DraftLimit
from forerun.drafters.suffix.candidate import Candidate, most_frequent_path, most_probable_tree
from forerun.drafters.suffix.config import SuffixConfig
from forerun.drafters.suffix.continuations import Continuations, State

# Share of the tokens allowed that a draft must be expected to keep for the search to end with it. In text that repeats
# itself every shorter match is a little better than the last, and not worth its time.
ENOUGH = 0.9


class DraftSearch:
    """Finds the match whose draft has the highest score, the expected number of tokens kept.

    Up to some match length, the turn, longer matches allow more tokens; beyond it ``max_depth`` leaves them fewer.
    Matches up to the turn are tried longest first, then those beyond, shortest first; of equal scores the longer match
    wins, and the first draft that is good enough ends the search.
    """

    def __init__(self, config: SuffixConfig) -> None:
        self.config = config
        self._budgets = tuple(map(config.budget, range(config.max_depth)))
        self._turns: dict[int, int] = {}

    def is_enough(self, candidate: Candidate, limit: DraftLimit) -> bool:
        """Whether nothing better is worth looking for. A tree's tokens of one depth share one unit of probability."""
        return candidate.score >= ENOUGH * min(limit.num_tokens, limit.num_rows)

    def best(
        self, source: Continuations[State], matches: Sequence[Match[State]], limit: DraftLimit, floor: float
    ) -> Candidate:
        """The best draft behind ``matches``, longest match first; an empty one if none has more than ``floor``."""
        turn = self._turn(limit)
        best = Candidate(score=floor)
        for match in matches:
            if match.shortest > turn:
                continue
            length = min(match.longest, turn)
            if self._num_tokens(length, limit) <= best.score:
                # No token counts for more than 1, and shorter matches allow no more tokens.
                break
            found = self._candidate(source, match.state, length, limit, best.score)
            if found is not None and found.score > best.score:
                best = found
                if self.is_enough(best, limit):
                    return best
        if matches and matches[0].longest > turn:
            for state, length in self._beyond(matches, turn, is_tree=limit.is_tree):
                found = self._candidate(source, state, length, limit, best.score)
                if found is not None and found.score >= best.score and found.score > floor:
                    best = found
                    if self.is_enough(best, limit):
                        return best
        return best if best.tokens else Candidate()

    def _turn(self, limit: DraftLimit) -> int:
        """The longest match length whose draft ``max_depth`` does not cut."""
        if limit.is_tree:
            return self.config.max_depth - limit.num_tokens
        most = min(limit.num_tokens, limit.num_rows, self.config.max_depth)
        if most not in self._turns:
            self._turns[most] = max(
                length
                for length, budget in enumerate(self._budgets)
                if length == 0 or min(most, budget) <= self.config.max_depth - length
            )
        return self._turns[most]

    @staticmethod
    def _beyond(matches: Sequence[Match[State]], turn: int, *, is_tree: bool) -> Iterator[tuple[State, int]]:
        """Matches beyond the turn with their lengths, shortest first.

        At the same places all lengths have the same path, and the shortest one is cut least; trees differ.
        """
        for match in reversed(matches):
            lengths = range(max(match.shortest, turn + 1), match.longest + 1)
            for length in lengths if is_tree else lengths[:1]:
                yield match.state, length

    def _num_tokens(self, length: int, limit: DraftLimit) -> int:
        """Tokens that a match of ``length`` may draft."""
        if limit.is_tree:
            return min(limit.num_rows, self._budgets[length])
        return min(limit.num_tokens, limit.num_rows, self._budgets[length], self.config.max_depth - length)

    def _candidate(
        self, source: Continuations[State], state: State, length: int, limit: DraftLimit, floor: float
    ) -> Candidate | None:
        """What a match of ``length`` offers; None if that can't reach ``floor``."""
        num_tokens = self._num_tokens(length, limit)
        if num_tokens * source.highest_count(state) / source.count(state) < floor:
            # No token behind a match is likelier than the first.
            return None
        if not limit.is_tree:
            return most_frequent_path(source, state, num_tokens, self.config.min_token_prob)
        depth = min(limit.num_tokens, self.config.max_depth - length)
        if depth < floor:
            return None
        return most_probable_tree(source, state, num_tokens, depth, self.config.min_token_prob)
