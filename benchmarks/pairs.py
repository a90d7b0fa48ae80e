"""Two things timed in turn: pairs of a quiet machine, their ratio and its interval."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from forerun.sweep.load_guard import LoadLimits, LoadWatch
from forerun.sweep.statistics import MIN_PAIRS, median, median_interval

# Clocks tick in hundredths of a second: a shorter turn can't tell our own time from a neighbour's.
TURN_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Turn:
    """Median seconds of one call within a turn, and why the turn doesn't count (empty: it does)."""

    seconds: float
    spoiled_by: str


@dataclass(frozen=True, slots=True)
class Ratio:
    """First over second. ``low`` and ``high`` are NaN below six pairs, everything is without any."""

    value: float
    low: float
    high: float
    num_pairs: int
    num_spoiled: int
    seconds: tuple[float, float]

    @property
    def text(self) -> str:
        """The ratio with its interval, or what there is of it and why."""
        if not self.num_pairs:
            return f"– (0 pairs, {self.num_spoiled} left out: the machine was busy)"
        if self.num_pairs < MIN_PAIRS:
            return f"{self.value:.2f} ({self.num_pairs} pairs, too few for an interval)"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def take_turn(call: Callable[[], object], limits: LoadLimits) -> Turn:
    """Calls it for ``TURN_SECONDS``, at least once."""
    times: list[float] = []
    with LoadWatch() as watch:
        end = time.perf_counter() + TURN_SECONDS
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return Turn(median(times), limits.spoiled_by(watch.reading))


def compare(
    first: Callable[[], object], second: Callable[[], object], num_pairs: int, limits: LoadLimits | None = None
) -> Ratio:
    """``num_pairs`` pairs that count, or as many as three times the tries give."""
    limits = limits or LoadLimits()
    first(), second()
    pairs: list[tuple[float, float]] = []
    num_spoiled = 0
    gc.collect()
    gc.disable()
    try:
        while len(pairs) < num_pairs and len(pairs) + num_spoiled < 3 * num_pairs:
            turns = take_turn(first, limits), take_turn(second, limits)
            if any(turn.spoiled_by for turn in turns):
                num_spoiled += 1
            else:
                pairs.append((turns[0].seconds, turns[1].seconds))
    finally:
        gc.enable()
    ratios = [one / other for one, other in pairs]
    interval = median_interval(ratios)
    nan = float("nan")
    low, high = (interval.low, interval.high) if interval else (nan, nan)
    seconds = (median([one for one, _ in pairs]), median([other for _, other in pairs])) if pairs else (nan, nan)
    return Ratio(median(ratios) if ratios else nan, low, high, len(pairs), num_spoiled, seconds)
