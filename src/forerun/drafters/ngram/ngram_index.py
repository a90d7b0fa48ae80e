"""Where each n-gram of a growing text occurred: appending, cutting and matching cost the same in any context."""

from __future__ import annotations

from forerun.drafters.ngram.config import NgramConfig

NOWHERE = -1


class NgramIndex:
    """Occurrences of every n-gram of ``min_n`` to ``max_n`` tokens, by the position of its last token.

    Per n: the newest occurrence of each n-gram (one dictionary), and per position the occurrence before it and the
    first one of the n-gram that ends there. A token costs two dictionary operations per n to append or to cut; a match
    needs none, because the text's end is itself an occurrence.
    """

    def __init__(self, config: NgramConfig) -> None:
        self.config = config
        self.tokens: list[int] = []
        lengths = range(config.min_n, config.max_n + 1)
        self._newest: dict[int, dict[tuple[int, ...], int]] = {n: {} for n in lengths}
        self._previous: dict[int, list[int]] = {n: [] for n in lengths}
        self._first: dict[int, list[int]] = {n: [] for n in lengths}

    def copy(self) -> NgramIndex:
        """An independent index of the same text; flat copies only."""
        twin = NgramIndex(self.config)
        twin.tokens = self.tokens.copy()
        twin._newest = {n: newest.copy() for n, newest in self._newest.items()}
        twin._previous = {n: previous.copy() for n, previous in self._previous.items()}
        twin._first = {n: first.copy() for n, first in self._first.items()}
        return twin

    def append(self, token: int) -> None:
        """One more token at the text's end."""
        end = len(self.tokens)
        self.tokens.append(token)
        for n, newest in self._newest.items():
            previous = NOWHERE
            if end + 1 >= n:
                gram = tuple(self.tokens[end + 1 - n :])
                previous = newest.get(gram, NOWHERE)
                newest[gram] = end
            self._previous[n].append(previous)
            self._first[n].append(end if previous == NOWHERE else self._first[n][previous])

    def truncate(self, length: int) -> None:
        """Forget every token from position ``length`` on."""
        while len(self.tokens) > length:
            end = len(self.tokens) - 1
            for n, newest in self._newest.items():
                self._first[n].pop()
                previous = self._previous[n].pop()
                if end + 1 < n:
                    continue
                gram = tuple(self.tokens[end + 1 - n :])
                if previous == NOWHERE:
                    del newest[gram]
                else:
                    newest[gram] = previous
            self.tokens.pop()

    def continuation(self) -> int | None:
        """Position behind the longest earlier match of the text's end, by ``config.occurrence`` among equally long."""
        found = self.match()
        return None if found is None else found[1]

    def match(self) -> tuple[int, int] | None:
        """Length of the longest earlier match and the position behind it, as ``continuation`` chooses it."""
        end = len(self.tokens) - 1
        for n in reversed(self._newest):
            if end + 1 <= n:
                continue
            last_allowed = end - 1 if self.config.allow_overlap else end - n
            if self.config.occurrence == "earliest":
                match = self._first[n][end]
                match = match if match <= last_allowed else NOWHERE
            else:
                match = self._previous[n][end]
                # At most n - 1 occurrences overlap the end.
                while match > last_allowed:
                    match = self._previous[n][match]
            if match != NOWHERE:
                return n, match + 1
        return None
