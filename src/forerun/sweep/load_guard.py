"""Watches the machine around a trial. A run is discarded for what the machine did, never for what it measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import psutil

from forerun.sweep.measurements import LoadReading


@dataclass(frozen=True, slots=True)
class LoadSample:
    """Counters at one moment, since boot or start: CPU seconds of everybody (steal by a hypervisor too) and our own."""

    at: float
    load_average: float
    busy_cpu_seconds: float
    own_cpu_seconds: float
    involuntary_switches: int
    num_cpus: int


def read_machine() -> LoadSample:
    """The machine now. Own time and switches count all threads and the children that have ended."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # A guest's time is already in the user's.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    own = os.times()
    return LoadSample(
        at=time.perf_counter(),
        load_average=psutil.getloadavg()[0],
        busy_cpu_seconds=sum(times) - idle - guests,
        own_cpu_seconds=own.user + own.system + own.children_user + own.children_system,
        involuntary_switches=_involuntary_switches(),
        num_cpus=psutil.cpu_count() or 1,
    )


def _involuntary_switches() -> int:
    try:
        import resource
    except ImportError:
        # Windows counts both kinds together, so there is no figure of the one that tells of crowding.
        return 0
    return sum(resource.getrusage(who).ru_nivcsw for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def between(before: LoadSample, after: LoadSample) -> LoadReading:
    """What happened from one sample to the next. Clocks tick in hundredths, so a tiny negative share becomes 0."""
    foreign = (after.busy_cpu_seconds - before.busy_cpu_seconds) - (after.own_cpu_seconds - before.own_cpu_seconds)
    return LoadReading(
        seconds=after.at - before.at,
        load_average=after.load_average,
        foreign_cpu_seconds=max(foreign, 0.0),
        involuntary_switches=after.involuntary_switches - before.involuntary_switches,
        num_cpus=after.num_cpus,
    )


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """What a quiet machine stays under.

    ``foreign_share``: share of all CPU time taken by others, idle machines stay near 0.02. ``switches_per_second``: how
    often, per CPU, the scheduler took a core away from us; a process that shares its core is cut off every few
    milliseconds. The load average is recorded but decides nothing: it lags by a minute and counts ourselves.
    """

    foreign_share: float = 0.10
    switches_per_second: float = 40.0

    def spoiled_by(self, *readings: LoadReading) -> str:
        """Why a pair with these readings does not count; empty if it does."""
        for reading in readings:
            if reading.foreign_share > self.foreign_share:
                return f"other processes took {reading.foreign_share:.0%} of the CPUs"
            rate = reading.involuntary_switches / (reading.seconds * reading.num_cpus) if reading.seconds > 0 else 0.0
            if rate > self.switches_per_second:
                return f"a core was taken away {rate:.0f} times a second"
        return ""


class LoadWatch:
    """``with LoadWatch() as watch: ...``, then ``watch.reading``."""

    def __init__(self, sample: Callable[[], LoadSample] = read_machine) -> None:
        self._sample = sample
        self._before: LoadSample | None = None
        self._reading: LoadReading | None = None

    @property
    def reading(self) -> LoadReading:
        """What the machine did inside the block, known once it ended."""
        assert self._reading is not None, "the watched block has not ended"
        return self._reading

    def __enter__(self) -> LoadWatch:
        self._before = self._sample()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._before is not None
        self._reading = between(self._before, self._sample())
