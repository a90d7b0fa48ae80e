"""Where torch does what the kernels should: why, and what that costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

from forerun.models.native.build import PATHS, library_file
from forerun.models.native.kernels import find_kernels
from forerun.models.tiled_linear import TiledLinear

NUM_ROWS = 16
_SHAPE = (8192, 2048)  # 32 MB in bf16: not in any core's own cache
_REMEDY = "install g++ or clang++ and run: python -m forerun.models.native.build"


def describe_fallback(dtype: torch.dtype) -> str | None:
    """One line on why torch computes here and what it costs, measured in a fifth of a second; None where it doesn't.

    Nor where torch was asked for by name.
    """
    if os.environ.get("FORERUN_KERNELS") == "torch" or find_kernels() is not None:
        return None
    is_built = any(library_file(path).exists() for path in PATHS)
    reason = "none of the built kernels run on this CPU" if is_built else "the native kernels are not built"
    factor = cost_of_torch(dtype)
    cost = f"a linear over {NUM_ROWS} rows takes {factor:.1f} times as long as reading its weights"
    return f"{reason}, torch computes instead: same promises, but {cost}; {_REMEDY}"


def cost_of_torch(dtype: torch.dtype) -> float:
    """Time of an exact linear over ``NUM_ROWS`` rows in units of reading its weights once, which bounds any kernel."""
    weight = torch.full(_SHAPE, 0.5, dtype=dtype)
    reading = _fastest(lambda: weight.view(torch.int64).sum())
    linear = TiledLinear(weight)
    linear.pack()
    rows = torch.ones(NUM_ROWS, _SHAPE[1])
    return _fastest(lambda: linear(rows)) / reading


def _fastest(run: Callable[[], object], num_tries: int = 4) -> float:
    """Seconds of the fastest try but the first, which warms up."""
    seconds = []
    for _ in range(num_tries):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])
