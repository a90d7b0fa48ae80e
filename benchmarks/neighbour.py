"""What a busy neighbour costs a pass: python -m benchmarks.neighbour MODEL

One process spins in a Python loop, pinned nowhere; it is stopped and let go in turns. In every turn passes of one row
run on the native kernels and through torch's OpenMP threads, so that all four rows of the table share whatever else the
machine does. T threads beside one neighbour on C cores have C / (T + 1) of a core each, so a share costs up to
(T + 1) / C times the time alone; what goes beyond is a stall, and shows in p99 and max.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from benchmarks.command import run_script
from benchmarks.kernel_choice import load_on
from forerun.engine.costs.pass_probe import PassProbe
from forerun.models.base import Target


@dataclass(frozen=True, slots=True)
class Arm:
    """Passes of one kind; ``alone`` and ``beside`` are wall seconds."""

    name: str
    run_pass: Callable[[], None]
    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)

    def measure(self, num_passes: int, into: list[float]) -> None:
        """A few passes that don't count, so that threads are awake, then ``num_passes`` that do."""
        for index in range(num_passes + 3):
            start = time.perf_counter()
            self.run_pass()
            if index >= 3:
                into.append(time.perf_counter() - start)


@contextmanager
def neighbour() -> Iterator[Callable[[bool], None]]:
    """A process that spins for as long as it was last told to; stopped at first."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def let_run(is_running: bool) -> None:
        os.kill(process.pid, signal.SIGCONT if is_running else signal.SIGSTOP)

    try:
        let_run(False)
        yield let_run
    finally:
        process.kill()
        process.wait()


def passes(target: Target, context: int) -> Callable[[], None]:
    """One-row passes behind ``context`` tokens."""
    probe = PassProbe(target)
    return lambda: probe.run_pass(1, 1, context)


def main() -> None:
    """Print median, p99 and max of each arm, alone and beside the neighbour."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbour", description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model directory, a GGUF file or a catalog name")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--turns", type=int, default=10, help="turns of each arm, alone and beside (default: 10)")
    parser.add_argument("--passes", type=int, default=12, help="passes a turn (default: 12)")
    parser.add_argument("--kernels", nargs="+", default=["auto", "torch"], help="arms, as in FORERUN_KERNELS")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    targets = [load_on(kernels, options.model) for kernels in options.kernels]
    arms = [Arm(target.traits.kernels, passes(target, options.context)) for target in targets]
    with neighbour() as let_run:
        for turn in range(options.turns):
            for arm in arms[:: 1 if turn % 2 else -1]:
                for is_beside in (False, True):
                    let_run(is_beside)
                    time.sleep(0.02)  # the other arm's threads fall asleep
                    arm.measure(options.passes, arm.beside if is_beside else arm.alone)
    waiting = ", ".join(f"{name}={os.environ.get(name, 'unset')}" for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"))
    print(f"{options.model}, {options.threads} threads, {len(os.sched_getaffinity(0))} cores, torch with {waiting}")
    print(f"{'':32}{'median':>8}  {'p99':>8}  {'max':>8} ms")
    for arm in arms:
        for name, seconds in (("alone", arm.alone), ("beside a neighbour", arm.beside)):
            row = [np.median(seconds), np.quantile(seconds, 0.99), max(seconds)]
            print(f"{arm.name + ' ' + name:32}" + "  ".join(f"{1e3 * value:8.2f}" for value in row))
        print(f"{arm.name + ', beside / alone':32}{np.median(arm.beside) / np.median(arm.alone):8.2f}")


if __name__ == "__main__":
    run_script(main)
