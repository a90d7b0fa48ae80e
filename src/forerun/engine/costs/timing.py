"""Timing things in turns, by a clock that comes from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Clock = Callable[[], float]


def time_in_turns(runs: Sequence[Callable[[], None]], num_repeats: int, clock: Clock) -> list[list[float]]:
    """Seconds of each run, ``num_repeats`` times after one warm-up turn that is not counted.

    The runs take turns, so that a slow spell of the machine hits all of them.
    """
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(num_repeats + 1):
        for run, seconds in zip(runs, times, strict=True):
            start = clock()
            run()
            if turn:
                seconds.append(clock() - start)
    return times
