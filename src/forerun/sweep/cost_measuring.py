"""Measuring C and D. What runs a pass or a draft, and the clock, come from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from forerun.sweep.results import CostPoint, DraftCostPoint
from forerun.sweep.statistics import median

Clock = Callable[[], float]


def rows_needed(lengths: Iterable[int], concurrencies: Iterable[int]) -> list[tuple[int, int]]:
    """(rows, sequences) that the sweep asks for: a plain step and a round of every N, per concurrency."""
    sizes = sorted(set(concurrencies))
    return sorted({(size * (n + 1), size) for size in sizes for n in {0, *lengths}})


def measure_target(
    run_pass: Callable[[int, int, int], None],
    grid: Sequence[tuple[int, int, int]],
    *,
    num_repeats: int = 5,
    clock: Clock = time.perf_counter,
) -> tuple[CostPoint, ...]:
    """Median seconds per (rows, sequences, context). Points take turns, so that a slow spell hits all of them."""
    times = _in_turns([partial(run_pass, *point) for point in grid], num_repeats, clock)
    return tuple(CostPoint(*point, median(seconds)) for point, seconds in zip(grid, times, strict=True))


def measure_draft(
    run_draft: Callable[[int, int], None],
    grid: Sequence[tuple[int, int]],
    *,
    num_repeats: int = 5,
    clock: Clock = time.perf_counter,
) -> tuple[DraftCostPoint, ...]:
    """Median seconds per (N, sequences), points in turns."""
    times = _in_turns([partial(run_draft, *point) for point in grid], num_repeats, clock)
    return tuple(DraftCostPoint(*point, median(seconds)) for point, seconds in zip(grid, times, strict=True))


def _in_turns(runs: Sequence[Callable[[], None]], num_repeats: int, clock: Clock) -> list[list[float]]:
    """Seconds of each run, ``num_repeats`` times after one warm-up turn that is not counted."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(num_repeats + 1):
        for run, seconds in zip(runs, times, strict=True):
            start = clock()
            run()
            if turn:
                seconds.append(clock() - start)
    return times
