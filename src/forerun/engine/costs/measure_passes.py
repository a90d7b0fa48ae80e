"""A lean measurement of what passes cost: seconds for a small model, bounded for a large one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from forerun.engine.costs.cost_point import CostPoint
from forerun.engine.costs.pass_costs import PassCostIdentity, PassCosts
from forerun.engine.costs.pass_probe import PassProbe
from forerun.engine.costs.timing import Clock, time_in_turns
from forerun.models.base import Target
from forerun.models.device import choose_kv_dtype

# A row before and behind every multiple at which a kernel may begin another tile.
PASS_ROWS = (1, 2, 4, 8, 9, 16, 17, 24, 32, 33, 48, 49, 64, 65)
BATCH_SIZE = 8
BATCH_ROWS = (8, 16, 24, 32, 40, 64, 72, 128)
SLICE_ROWS = (16, 32, 64, 96, 128, 192, 256, 512)
CONTEXTS = (128, 768)
NUM_REPEATS = 3
# A pass that takes longer than this, and than so many of the smallest, ends its ascending series: nobody waits for it.
MAX_SECONDS = 1.0
MAX_TIMES_SMALLEST = 4.0


@dataclass(frozen=True, slots=True)
class _Series:
    """Passes of one kind over one bed, by ascending row count."""

    run: Callable[[int], None]
    rows: Sequence[int]
    sequences: int
    context: int

    def affordable(self, clock: Clock) -> _Series:
        """The same up to the first pass that takes too long, which is still in. Makes the bed and warms it up."""
        self.run(self.rows[0])
        bound = MAX_SECONDS
        for index, rows in enumerate(self.rows):
            start = clock()
            self.run(rows)
            taken = clock() - start
            if index == 0:
                bound = max(bound, MAX_TIMES_SMALLEST * taken)
            elif taken > bound:
                return replace(self, rows=self.rows[: index + 1])
        return self


def measure_passes(
    target: Target, identity: PassCostIdentity, *, clock: Clock = time.perf_counter, num_repeats: int = NUM_REPEATS
) -> PassCosts:
    """Times verify passes of one and of ``BATCH_SIZE`` sequences and slices of prefill behind two context lengths.

    All of them take turns, so that a slow spell of the machine makes no cliff. Contexts are cut to what the target can
    hold. Keys and values are as the identity says.
    """
    kv_dtype = choose_kv_dtype(identity.kv_dtype)
    room = target.traits.max_context - SLICE_ROWS[-1]
    near, far = (max(0, min(context, room)) for context in CONTEXTS)
    passes: list[_Series] = []
    slices: list[_Series] = []
    for context in sorted({near, far}):
        probe = PassProbe(target, SLICE_ROWS[-1], kv_dtype=kv_dtype)
        passes.append(_Series(partial(_pass, probe, 1, context), PASS_ROWS, 1, context))
        slices.append(_Series(partial(_slice, probe, context), SLICE_ROWS, 1, context))
    probe = PassProbe(target, BATCH_ROWS[-1] // BATCH_SIZE, kv_dtype=kv_dtype)
    passes.append(_Series(partial(_pass, probe, BATCH_SIZE, near), BATCH_ROWS, BATCH_SIZE, near))
    points = _measure([series.affordable(clock) for series in (*passes, *slices)], num_repeats, clock)
    num_passes = len(passes)
    return PassCosts(
        identity,
        datetime.now(UTC).isoformat(timespec="seconds"),
        tuple(point for series in points[:num_passes] for point in series),
        tuple(point for series in points[num_passes:] for point in series),
    )


def _pass(probe: PassProbe, sequences: int, context: int, rows: int) -> None:
    probe.run_pass(rows, sequences, context)


def _slice(probe: PassProbe, context: int, rows: int) -> None:
    probe.run_slice(rows, context)


def _measure(all_series: Sequence[_Series], num_repeats: int, clock: Clock) -> list[list[CostPoint]]:
    """Seconds of every pass of every series: the fastest try, since whatever else the machine does only adds."""
    runs = [partial(series.run, rows) for series in all_series for rows in series.rows]
    times = iter(time_in_turns(runs, num_repeats, clock))
    return [
        [CostPoint(rows, series.sequences, series.context, min(next(times))) for rows in series.rows]
        for series in all_series
    ]
