"""Finished texts in parts that grow geometrically: bounded, oldest sequence out first."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from forerun.corpus.context_order import Ints
from forerun.corpus.corpus_part import CorpusPart
from forerun.corpus.join import Join
from forerun.corpus.separated import joined, separated, without_first

# A part is joined with what came after it when that is over an eighth of its size: few parts to look through, and every
# token is indexed anew a bounded number of times on its way to the oldest part.
GROWTH = 8
# Indexing so many tokens takes about a millisecond: done, joined and cut at once. Anything larger takes a ``Join``.
SMALL_PART = 512
# A cut is prepared when this share of a bound is left, so that it is done before room runs out.
SHARE_LEFT = 1 / 16
# Every part is looked through at every proposal: with more than these, joins are adopted before they are due.
MAX_PARTS = 16

# A short join does not wait for a long one: a corpus has seldom more than this many in the making.
NUM_WORKERS = 4


def new_workers() -> Executor:
    """Threads that make joins; they start with the first one, and end when nobody holds the executor."""
    return ThreadPoolExecutor(NUM_WORKERS, thread_name_prefix="forerun-corpus")


class Corpus:
    """Sequences that share one bound, in immutable parts, oldest first.

    What one ``ingest`` brings is counted together. Sequences that come one by one are joined with older ones as they
    add up; parts that are not joined yet are matched one by one. When a large oldest part has to give something up, a
    ninth of its tokens goes at once. ``ingest`` returns when all is joined; ``feed`` leaves that to other threads, and
    ``adopt_due`` takes over what they made. What the corpus holds, and how it is cut into parts, depends on nothing but
    what was ingested or fed at which proposal.
    """

    def __init__(self, max_depth: int, max_tokens: int, max_sequences: int, workers: Executor | None = None) -> None:
        """``workers`` make joins; without, threads of the corpus' own."""
        self.max_depth = max_depth
        self.max_tokens = max_tokens
        self.max_sequences = max_sequences
        self._workers = new_workers() if workers is None else workers
        self._entries: list[CorpusPart | Join] = []

    @property
    def parts(self) -> list[CorpusPart]:
        """What is read, oldest first."""
        return [part for one in self._entries for part in (one.parts if isinstance(one, Join) else (one,))]

    @property
    def num_tokens(self) -> int:
        """Tokens held."""
        return sum(one.num_tokens for one in self._entries)

    @property
    def num_sequences(self) -> int:
        """Sequences held."""
        return sum(one.num_sequences for one in self._entries)

    @property
    def num_bytes(self) -> int:
        """Bytes of the parts' arrays."""
        return sum(part.num_bytes for part in self.parts)

    @property
    def tokens(self) -> list[int]:
        """All tokens that are read, oldest first."""
        return [token for part in self.parts for sequence in part.sequences() for token in sequence.tolist()]

    @property
    def joins(self) -> list[Join]:
        """What is in the making, oldest first."""
        return [one for one in self._entries if isinstance(one, Join)]

    def ingest(self, sequences: Sequence[Sequence[int] | Ints]) -> None:
        """Add finished texts; beyond the bounds the oldest go. Empty ones and those over a bound do not enter."""
        self._adopt_all()
        self._enter(sequences, now=0)
        self._adopt_all()

    def feed(self, output: Sequence[int], now: int) -> None:
        """Add one finished text as ``ingest`` does, but put off what takes over a millisecond or two.

        ``now`` counts the proposals so far. The text is read at once; one of over ``SMALL_PART`` tokens when due.
        """
        self.adopt_due(now)
        self._enter([output], now)
        if self._entries:
            self._cut_ahead(now)
        while len(self.parts) > MAX_PARTS and (joins := self.joins):
            self._adopt(min(joins, key=lambda join: join.num_tokens))

    def adopt_due(self, now: int) -> None:
        """Read the joins that are due at proposal ``now``, waiting for what is not ready."""
        for join in self.joins:
            if join.due <= now:
                self._adopt(join)

    def _adopt_all(self) -> None:
        for join in self.joins:
            self._adopt(join)

    def _adopt(self, join: Join) -> None:
        self._entries[self._entries.index(join)] = join.result()
        # Giving back a large part's memory takes milliseconds: the last reference goes on another thread.
        self._workers.submit(join.let_go())

    def _enter(self, sequences: Sequence[Sequence[int] | Ints], now: int) -> None:
        """Let in what fits, and the oldest out."""
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
            self._entries = []
        if newest := fitting[first:]:
            num_tokens = sum(map(len, newest))
            self._make_room(num_tokens, len(newest), now)
            self._add(separated(newest), num_tokens, now)

    def _make_room(self, num_tokens: int, num_sequences: int, now: int) -> None:
        """Let the oldest sequences go until so much fits."""
        while self._entries:
            too_many = self._too_many(num_tokens, num_sequences)
            if max(too_many) <= 0:
                return
            oldest = self._entries[0]
            if isinstance(oldest, Join):
                self._adopt(oldest)
                continue
            num_gone = _num_gone(oldest, *too_many)
            if num_gone >= oldest.num_sequences:
                del self._entries[0]
            elif oldest.num_tokens <= SMALL_PART:
                self._entries[0] = CorpusPart(without_first(oldest.text, num_gone), self.max_depth)
            else:
                self._cut(num_gone, now)

    def _cut_ahead(self, now: int) -> None:
        """Begin to cut a large oldest part while there is room left."""
        left = round(self.max_tokens * SHARE_LEFT), round(self.max_sequences * SHARE_LEFT)
        too_many, oldest = self._too_many(*left), self._entries[0]
        if max(too_many) > 0 and isinstance(oldest, CorpusPart) and oldest.num_tokens > SMALL_PART:
            num_gone = _num_gone(oldest, *too_many)
            if num_gone < oldest.num_sequences:
                self._cut(num_gone, now)

    def _too_many(self, num_tokens: int, num_sequences: int) -> tuple[int, int]:
        """Tokens and sequences over the bounds if so many came."""
        return self.num_tokens + num_tokens - self.max_tokens, self.num_sequences + num_sequences - self.max_sequences

    def _cut(self, num_gone: int, now: int) -> None:
        """Begin to take sequences from the oldest part, and to join what is behind it on the way."""
        parts: list[CorpusPart] = []
        for one in self._entries:
            if isinstance(one, Join):
                break
            parts.append(one)
        self._entries[: len(parts)] = [Join(parts, (), self.max_depth, self._workers, now=now, num_gone=num_gone)]

    def _add(self, text: Ints, num_tokens: int, now: int) -> None:
        """One more part, joined with those that are not much larger."""
        first, num_newer = len(self._entries), num_tokens
        for index, one in reversed(list(enumerate(self._entries))):
            if isinstance(one, Join):
                break
            if one.num_tokens < GROWTH * num_newer or one.num_tokens + num_newer <= SMALL_PART:
                first = index
            num_newer += one.num_tokens
        older = [one for one in self._entries[first:] if isinstance(one, CorpusPart)]
        if sum(part.num_tokens for part in older) + num_tokens <= SMALL_PART:
            self._entries[first:] = [CorpusPart(joined([*(part.text for part in older), text]), self.max_depth)]
        elif num_tokens > SMALL_PART:
            self._entries[first:] = [Join(older, [text], self.max_depth, self._workers, now=now)]
        else:
            older.append(CorpusPart(text, self.max_depth))
            self._entries[first:] = (
                older if len(older) == 1 else [Join(older, (), self.max_depth, self._workers, now=now)]
            )


def _num_gone(oldest: CorpusPart, too_many_tokens: int, too_many_sequences: int) -> int:
    """How many sequences the oldest part gives up: from a large one a ninth at once, so that the next cuts are free."""
    num_gone = max(too_many_sequences, _num_leading(oldest.lengths, too_many_tokens))
    if oldest.num_tokens > SMALL_PART and too_many_tokens > 0:
        num_gone = max(num_gone, _num_leading(oldest.lengths, oldest.num_tokens // (GROWTH + 1)))
    if oldest.num_tokens > SMALL_PART and too_many_sequences > 0:
        num_gone = max(num_gone, oldest.num_sequences // (GROWTH + 1))
    return num_gone


def _num_leading(lengths: Ints, num_tokens: int) -> int:
    """How many sequences from the front hold ``num_tokens`` tokens at least; all if they don't."""
    return min(len(lengths), int(np.searchsorted(np.cumsum(lengths), num_tokens)) + 1) if num_tokens > 0 else 0
