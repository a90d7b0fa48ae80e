"""Machine load around one answer, with the work of the engine that gives it counted as ours.

Other programs, other users and time stolen by a hypervisor count as foreign. Switches aren't counted: an engine whose
threads yield while they poll (vLLM's do, thirty thousand times a second) counts each as a core taken away.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psutil

from forerun.sweep.load_guard import LoadSample


def read_machine(pid: int) -> LoadSample:
    """The machine now; own are this process and the server ``pid`` with all of its children."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    members = [psutil.Process(), *_tree(pid)]
    return LoadSample(
        at=time.perf_counter(),
        load_average=psutil.getloadavg()[0],
        busy_cpu_seconds=sum(times) - idle - guests,
        own_cpu_seconds=sum(_cpu_seconds(member) for member in members),
        involuntary_switches=0,
        num_cpus=psutil.cpu_count() or 1,
    )


def _tree(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        yield leader
        yield from leader.children(recursive=True)


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
