"""Finished texts in parts that grow geometrically: bounded, oldest sequence out first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forerun.corpus.context_order import Ints
from forerun.corpus.corpus_part import CorpusPart

# A part is joined with what came after it when that is over an eighth of its size: few parts to look through, and every
# token is indexed anew a bounded number of times on its way to the oldest part.
GROWTH = 8
# Indexing so many tokens takes about a millisecond: parts up to this size are joined, and cut, at every occasion.
SMALL_PART = 1_024


class Corpus:
    """Sequences that share one bound, in immutable parts, oldest first.

    What one ``ingest`` brings is counted together. Sequences that come one by one are joined with older ones as they
    add up; parts that are not joined yet are matched one by one. When a large oldest part has to give something up, a
    ninth of its tokens goes at once. What the corpus holds, and how it is cut into parts, depends on nothing but what
    was ingested.
    """

    def __init__(self, max_depth: int, max_tokens: int, max_sequences: int) -> None:
        self.max_depth = max_depth
        self.max_tokens = max_tokens
        self.max_sequences = max_sequences
        self.parts: list[CorpusPart] = []

    @property
    def num_tokens(self) -> int:
        """Tokens held."""
        return sum(part.num_tokens for part in self.parts)

    @property
    def num_sequences(self) -> int:
        """Sequences held."""
        return sum(len(part.lengths) for part in self.parts)

    @property
    def num_bytes(self) -> int:
        """Bytes of the parts' arrays."""
        return sum(part.num_bytes for part in self.parts)

    @property
    def tokens(self) -> list[int]:
        """All tokens held, oldest first."""
        return [token for part in self.parts for sequence in part.sequences() for token in sequence.tolist()]

    def ingest(self, sequences: Sequence[Sequence[int] | Ints]) -> None:
        """Add finished texts; beyond the bounds the oldest go. Empty ones and those over a bound do not enter."""
        if self.max_sequences == 0:
            return
        fitting = [np.asarray(one, dtype=np.int32) for one in sequences if 0 < len(one) <= self.max_tokens]
        first, num_tokens = len(fitting), 0
        while first > 0 and len(fitting) - first < self.max_sequences:
            num_tokens += len(fitting[first - 1])
            if num_tokens > self.max_tokens:
                break
            first -= 1
        if first > 0:
            # Not even all of the new ones fit, and nothing older outlives one of them.
            self.parts = []
        if newest := fitting[first:]:
            self._make_room(sum(map(len, newest)), len(newest))
            self._add(newest)

    def _make_room(self, num_tokens: int, num_sequences: int) -> None:
        """Let the oldest sequences go until so much fits."""
        while self.parts:
            too_many_tokens = self.num_tokens + num_tokens - self.max_tokens
            too_many_sequences = self.num_sequences + num_sequences - self.max_sequences
            if too_many_tokens <= 0 and too_many_sequences <= 0:
                return
            oldest = self.parts.pop(0)
            num_gone = max(too_many_sequences, _num_leading(oldest.lengths, too_many_tokens))
            if num_gone >= len(oldest.lengths):
                continue
            if oldest.num_tokens <= SMALL_PART:
                self.parts.insert(0, CorpusPart(oldest.sequences()[num_gone:], self.max_depth))
                continue
            # A larger cut, so that the next ones are free; and newer parts join on the way.
            num_gone = max(num_gone, _num_leading(oldest.lengths, oldest.num_tokens // (GROWTH + 1)))
            kept = oldest.sequences()[num_gone:] + [one for part in self.parts for one in part.sequences()]
            self.parts = [CorpusPart(kept, self.max_depth)] if kept else []

    def _add(self, newest: list[Ints]) -> None:
        """One more part, joined with those that are not much larger."""
        num_tokens = sum(map(len, newest))
        while self.parts and self.parts[-1].num_tokens < max(GROWTH * num_tokens, SMALL_PART):
            older = self.parts.pop()
            newest = older.sequences() + newest
            num_tokens += older.num_tokens
        self.parts.append(CorpusPart(newest, self.max_depth))


def _num_leading(lengths: Sequence[int], num_tokens: int) -> int:
    """How many sequences from the front hold ``num_tokens`` tokens at least; all if they don't."""
    return min(len(lengths), int(np.searchsorted(np.cumsum(lengths), num_tokens)) + 1) if num_tokens > 0 else 0
