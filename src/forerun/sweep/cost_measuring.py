"""Measuring C and D. What runs a pass or a draft, and the clock, come from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from forerun.engine.costs.timing import Clock, time_in_turns
from forerun.sweep.results import CostPoint, DraftCostPoint
from forerun.sweep.statistics import median


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
    times = time_in_turns([partial(run_pass, *point) for point in grid], num_repeats, clock)
    return tuple(CostPoint(*point, median(seconds)) for point, seconds in zip(grid, times, strict=True))


def measure_draft(
    run_draft: Callable[[int, int], None],
    grid: Sequence[tuple[int, int]],
    *,
    num_repeats: int = 5,
    clock: Clock = time.perf_counter,
) -> tuple[DraftCostPoint, ...]:
    """Median seconds per (N, sequences), points in turns."""
    times = time_in_turns([partial(run_draft, *point) for point in grid], num_repeats, clock)
    return tuple(DraftCostPoint(*point, median(seconds)) for point, seconds in zip(grid, times, strict=True))


def measure_slices(
    run_slice: Callable[[int, int], None],
    rows: Sequence[int],
    contexts: Sequence[int],
    *,
    num_repeats: int = 2,
    clock: Clock = time.perf_counter,
) -> tuple[CostPoint, ...]:
    """Median seconds per slice of prefill; rows behind one context take turns. Slices are long, so two tries do."""
    found: list[CostPoint] = []
    for context in contexts:
        times = time_in_turns([partial(run_slice, count, context) for count in rows], num_repeats, clock)
        found += [CostPoint(count, 1, context, median(seconds)) for count, seconds in zip(rows, times, strict=True)]
    return tuple(found)


def measure_start(
    run_start: Callable[[int], None], num_tokens: int, *, num_repeats: int = 2, clock: Clock = time.perf_counter
) -> float:
    """Seconds per token of a prompt that a drafter takes before its first draft; the draft itself is taken off."""
    if num_tokens < 2:
        return 0.0
    short, long = time_in_turns([partial(run_start, 1), partial(run_start, num_tokens)], num_repeats, clock)
    return max(0.0, median(long) - median(short)) / (num_tokens - 1)
