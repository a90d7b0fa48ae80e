"""What a sweep tells the person who waits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Protocol

from forerun.engine.costs.timing import Clock


class Progress(Protocol):
    """Shows where a sweep is. Called between trials alone, so that showing costs no measured time."""

    def stage(self, text: str) -> None:
        """A new stage begins."""

    def advance(self, num_done: int, num_total: int, seconds_left: float | None) -> None:
        """Trials done of those planned, and about how long the rest takes."""


class Silent:
    """Shows nothing."""

    def stage(self, text: str) -> None:
        """See ``Progress``."""

    def advance(self, num_done: int, num_total: int, seconds_left: float | None) -> None:
        """See ``Progress``."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Seconds since ``started``, and when to be done; without a budget there is always time.

    ``clock`` is the clock of the whole sweep: costs are timed by it too.
    """

    budget: float | None
    started: float = field(default_factory=time.perf_counter)
    clock: Clock = time.perf_counter

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    @property
    def left(self) -> float:
        """Seconds until the budget is used up."""
        return float("inf") if self.budget is None else self.budget - self.elapsed

    def share(self, num_sharers: int) -> Deadline:
        """An even share of the time that is left, from now on."""
        if self.budget is None:
            return self
        return replace(self, budget=self.elapsed + self.left / num_sharers)
