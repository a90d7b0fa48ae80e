"""Single passes of a target over sequences of a given length, so that they can be timed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from forerun.cache.paged_cache import PagedCache
from forerun.cache.sequence import Sequence as CachedSequence
from forerun.models.base import AttentionGroup, PassInput, Target

BLOCK_SIZE = 16
# Rows of the passes that bring a bed to its length; nothing of them is timed.
FILL_ROWS = 64


@dataclass(frozen=True, slots=True)
class _Bed:
    """Sequences of one length, ready for a pass of up to ``max_rows`` rows each."""

    cache: PagedCache
    sequences: tuple[CachedSequence, ...]
    max_rows: int


class PassProbe:
    """Times nothing itself; keeps the last bed of sequences, so that points that share one only pay for their pass.

    A bed has room for ``max_rows`` rows of each sequence; a larger pass makes a new one. Keys and values are in
    ``kv_dtype``, or the target's own.
    """

    def __init__(self, target: Target, max_rows: int = FILL_ROWS, *, kv_dtype: torch.dtype | None = None) -> None:
        self._target = target
        self._kv_dtype = kv_dtype
        self._max_rows = max(max_rows, FILL_ROWS)
        self._beds: dict[tuple[int, int], _Bed] = {}

    def run_pass(self, rows: int, sequences: int, context: int) -> None:
        """A verify pass: logits of all ``rows`` rows, spread over ``sequences``. Nothing of it is kept."""
        num_rows = rows // sequences
        bed = self._bed(sequences, context, num_rows)
        with _undone(bed):
            self._pass(bed, num_rows, range(sequences * num_rows), num_committed=1, num_kept=0)

    def run_slice(self, rows: int, context: int) -> None:
        """A slice of prefill behind ``context`` tokens: committed rows, logits of the last alone. Nothing is kept."""
        bed = self._bed(1, context, rows)
        with _undone(bed):
            self._pass(bed, rows, (rows - 1,), num_committed=rows, num_kept=0)

    def _bed(self, sequences: int, context: int, num_rows: int) -> _Bed:
        bed = self._beds.get((sequences, context))
        if bed is None or bed.max_rows < num_rows:
            self._beds.clear()
            max_rows = max(self._max_rows, num_rows)
            blocks = sequences * (-(-(context + max_rows) // BLOCK_SIZE) + 1)
            cache = PagedCache(self._target, blocks, BLOCK_SIZE, kv_dtype=self._kv_dtype)
            bed = _Bed(cache, tuple(cache.open() for _ in range(sequences)), max_rows)
            self._fill(bed, context)
            self._beds[sequences, context] = bed
        return bed

    def _fill(self, bed: _Bed, context: int) -> None:
        """Bring every sequence to its length with real rows: memory that was never written reads faster than it is."""
        for start in range(0, context, FILL_ROWS):
            num_rows = min(FILL_ROWS, context - start)
            self._pass(bed, num_rows, (), num_committed=num_rows, num_kept=num_rows)

    def _pass(self, bed: _Bed, num_rows: int, logit_rows: Iterable[int], *, num_committed: int, num_kept: int) -> None:
        """``num_rows`` rows for each sequence of the bed."""
        windows = [bed.cache.open_window(sequence, num_rows) for sequence in bed.sequences]
        at = torch.arange(num_rows)
        total = num_rows * len(windows)
        groups = tuple(
            AttentionGroup(
                tuple(range(index * num_rows, (index + 1) * num_rows)), torch.cat([window.prefix_slots, window.slots])
            )
            for index, window in enumerate(windows)
        )
        batch = PassInput(
            torch.arange(total) % self._target.traits.vocab_size,
            torch.cat([window.start + at for window in windows]),
            torch.cat([window.slots for window in windows]),
            tuple(window.sequence.id for window in windows for _ in range(num_rows)),
            groups,
            tuple(logit_rows),
            {window.sequence.id: num_committed for window in windows},
        )
        # A device computes while the host goes on; a round waits for its logits, and so does a timed pass.
        self._target.forward(batch, bed.cache.store).logits.cpu()
        for window in windows:
            bed.cache.close_window(window, range(num_kept), num_kept)


@contextlib.contextmanager
def _undone(bed: _Bed) -> Iterator[None]:
    """Recurrent states are afterwards what they were."""
    states = dict(bed.cache.store.states)
    yield
    bed.cache.store.states.clear()
    bed.cache.store.states.update(states)
