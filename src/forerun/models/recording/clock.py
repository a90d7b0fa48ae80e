"""Time that includes what a device still has to do."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

Clock = Callable[[], float]


def device_clock(device: torch.device) -> Clock:
    """Seconds by which everything asked of ``device`` so far is done."""
    wait = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(device.type)

    def clock() -> float:
        if wait is not None:
            wait()
        return time.perf_counter()

    return clock
