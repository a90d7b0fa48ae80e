"""How many threads a container lets compute. torch looks at affinity and physical cores, but not at a CPU quota."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch


def keep_threads_within_quota(root: Path = Path("/")) -> None:
    """Lowers torch's thread count, which the native kernels share, to the quota; not if OMP_NUM_THREADS says otherwise.

    More threads than the quota pays for are all stopped together until its next period begins.
    """
    quota = cpu_quota(root)
    if quota is not None and "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > quota:
        torch.set_num_threads(quota)


def cpu_quota(root: Path = Path("/")) -> int | None:
    """Whole CPUs that the control group of this process may use, at least 1; None where nothing limits it."""
    limits = [limit for directory in _groups(root) if (limit := _limit(directory)) is not None]
    return max(1, math.ceil(min(limits))) if limits else None


def _groups(root: Path) -> list[Path]:
    """Directories of this process's group and those above it, cgroup v2 and v1: the tightest quota counts."""
    found = []
    names = root / "proc/self/cgroup"
    lines = names.read_text().splitlines() if names.exists() else []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        own = mount / path.lstrip("/")
        found += [own, *(parent for parent in own.parents if parent.is_relative_to(mount))]
    return found


def _limit(directory: Path) -> float | None:
    """CPUs per period, from ``cpu.max`` (v2) or ``cpu.cfs_quota_us`` (v1)."""
    try:
        if (unified := directory / "cpu.max").exists():
            quota, period = unified.read_text().split()
        else:
            quota = (directory / "cpu.cfs_quota_us").read_text().strip()
            period = (directory / "cpu.cfs_period_us").read_text().strip()
    except OSError:
        return None  # the root group has no such files, and a container may hide those above it
    return None if quota in ("max", "-1") else int(quota) / int(period)
