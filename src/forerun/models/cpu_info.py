"""What the system says of its first CPU. Empty where there is no /proc."""

from __future__ import annotations

from pathlib import Path


def cpu_info(field: str) -> str:
    """One field of /proc/cpuinfo, as it stands there."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return ""
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == field), "")


def cpu_flags() -> frozenset[str]:
    """Names of the instruction sets, as Linux calls them."""
    return frozenset(cpu_info("flags").split())
