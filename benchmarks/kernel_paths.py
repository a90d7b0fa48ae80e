"""Passes of each kernel path and number type: python -m benchmarks.kernel_paths MODEL PATH:DTYPE ...

All arms take turns in one process; times are medians, ratios medians over turns against the first arm. Times of one
thread are the processor's, which busy neighbours change less than the clock's; of several they are the clock's. Paths
are those of FORERUN_KERNELS. ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 lets torch compute as on a CPU without
AVX-512.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from benchmarks.command import run_script
from benchmarks.kernel_choice import load_on
from forerun.engine.costs.pass_probe import PassProbe


@dataclass(frozen=True, slots=True)
class Arm:
    """One model in memory; ``seconds`` by rows."""

    name: str
    probe: PassProbe
    seconds: dict[int, list[float]] = field(default_factory=dict)

    def measure(self, rows: int, context: int, clock: Callable[[], float]) -> None:
        """One pass that counts behind one that doesn't."""
        for is_counted in (False, True):
            start = clock()
            self.probe.run_pass(rows, 1, context)
            if is_counted:
                self.seconds.setdefault(rows, []).append(clock() - start)


def main() -> None:
    """Print median milliseconds and the ratio to the first arm, by rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_paths", description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model directory, a GGUF file or a catalog name")
    parser.add_argument("arms", nargs="+", metavar="PATH:DTYPE", help="avx2:bf16 torch:fp32, for example")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    arms = []
    for name in options.arms:
        path, _, dtype = name.partition(":")
        arms.append(Arm(name, PassProbe(load_on(path, options.model, dtype or "auto"), max(options.rows))))
    for turn in range(options.turns):
        for arm in arms[:: 1 if turn % 2 else -1]:
            for rows in options.rows:
                arm.measure(rows, options.context, clock)
    print(f"{options.model}, {options.threads} threads, context {options.context}: ms, and times the first arm's")
    print(f"{'':20}" + "".join(f"{f'{rows} rows':>20}" for rows in options.rows))
    for arm in arms:
        cells = []
        for rows in options.rows:
            ratio = np.median(np.divide(arm.seconds[rows], arms[0].seconds[rows]))
            cells.append(f"{1e3 * np.median(arm.seconds[rows]):12.2f} {ratio:6.2f}×")
        print(f"{arm.name:20}" + "".join(cells))


if __name__ == "__main__":
    run_script(main)
