"""A lean measurement of what passes cost: seconds for a small model, bounded for a large one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from statistics import median

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
SLICE_ROWS = (16, 32, 64, 96, 128, 192, 256, 384, 512)
CONTEXTS = (128, 768)
NUM_REPEATS = 3
# A pass that takes longer ends its ascending series: nobody waits for it, so nobody chooses it.
MAX_SECONDS = 1.0


def measure_passes(
    target: Target, identity: PassCostIdentity, *, clock: Clock = time.perf_counter, num_repeats: int = NUM_REPEATS
) -> PassCosts:
    """Times verify passes of one and of ``BATCH_SIZE`` sequences and slices of prefill behind two context lengths.

    Points of one bed take turns. Contexts are cut to what the target can hold. Keys and values are as the identity
    says.
    """
    probe = PassProbe(target, SLICE_ROWS[-1], kv_dtype=choose_kv_dtype(identity.kv_dtype))
    room = target.traits.max_context - SLICE_ROWS[-1]
    near, far = (max(0, min(context, room)) for context in CONTEXTS)
    passes: list[CostPoint] = []
    slices: list[CostPoint] = []
    for context in sorted({near, far}):
        passes += _measure(partial(_pass, probe, 1, context), PASS_ROWS, 1, context, num_repeats, clock)
        slices += _measure(partial(_slice, probe, context), SLICE_ROWS, 1, context, num_repeats, clock)
    batch = partial(_pass, probe, BATCH_SIZE, near)
    passes += _measure(batch, BATCH_ROWS, BATCH_SIZE, near, num_repeats, clock)
    return PassCosts(identity, datetime.now(UTC).isoformat(timespec="seconds"), tuple(passes), tuple(slices))


def _pass(probe: PassProbe, sequences: int, context: int, rows: int) -> None:
    probe.run_pass(rows, sequences, context)


def _slice(probe: PassProbe, context: int, rows: int) -> None:
    probe.run_slice(rows, context)


def _measure(
    run: Callable[[int], None], grid: Sequence[int], sequences: int, context: int, num_repeats: int, clock: Clock
) -> list[CostPoint]:
    """Median seconds per row count, up to the first that takes too long."""
    affordable: list[int] = []
    for rows in grid:
        start = clock()
        run(rows)
        affordable.append(rows)
        if clock() - start > MAX_SECONDS:
            break
    times = time_in_turns([partial(run, rows) for rows in affordable], num_repeats, clock)
    return [CostPoint(rows, sequences, context, median(one)) for rows, one in zip(affordable, times, strict=True)]
