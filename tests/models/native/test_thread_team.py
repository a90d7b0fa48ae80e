"""The kernels' threads: any counts in turn, two callers at once, forks, and processes that end while threads sleep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import torch

from forerun.models.native.build import SOURCES, find_compiler
from forerun.models.native.kernels import Kernels, find_kernels
from forerun.models.native.packed_linear import PackedLinear

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def best() -> Kernels:
    kernels = find_kernels("auto")
    if kernels is None:
        pytest.skip("no kernels are built")
    return kernels


@pytest.fixture(scope="module")
def linear(best: Kernels) -> PackedLinear:
    weight = torch.randn(300, 70, generator=torch.Generator().manual_seed(2))
    return PackedLinear(best, [weight], [None], torch.float32)


ROWS = torch.randn(9, 70, generator=torch.Generator().manual_seed(3))


def test_any_thread_counts_in_turn(linear: PackedLinear) -> None:
    torch.set_num_threads(1)
    expected = linear(ROWS)
    for index in range(3000):
        torch.set_num_threads(1 + index * 7 % 8)
        assert torch.equal(linear(ROWS), expected), index


def test_two_callers_at_once(linear: PackedLinear) -> None:
    torch.set_num_threads(3)
    expected, others = linear(ROWS), linear(ROWS * 2)
    wrong: list[int] = []

    def call() -> None:
        torch.set_num_threads(2)
        wrong.extend(index for index in range(1500) if not torch.equal(linear(ROWS * 2), others))

    thread = threading.Thread(target=call)
    thread.start()
    wrong += [index for index in range(1500) if not torch.equal(linear(ROWS), expected)]
    thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_has_threads_of_its_own(linear: PackedLinear) -> None:
    """While another thread is within a pass, whose locks the child finds taken."""
    torch.set_num_threads(3)
    expected = linear(ROWS)
    is_ending = threading.Event()

    def keep_busy() -> None:
        while not is_ending.is_set():
            linear(ROWS)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        children = []
        for _ in range(10):
            if (child := os.fork()) == 0:
                signal.alarm(20)  # a child that hangs ends by a signal
                os._exit(0 if all(torch.equal(linear(ROWS), expected) for _ in range(20)) else 1)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 10
    finally:
        is_ending.set()
        busy.join()
    assert torch.equal(linear(ROWS), expected)


@pytest.mark.parametrize("seconds", [0, 0.05], ids=["awake", "asleep"])
def test_a_process_may_end_at_any_time(seconds: float, best: Kernels) -> None:
    script = f"""
        import time, torch
        from forerun.models.native.kernels import find_kernels
        from forerun.models.native.packed_linear import PackedLinear
        torch.set_num_threads(4)
        linear = PackedLinear(find_kernels({best.path!r}), [torch.ones(99, 40)], [None], torch.float32)
        assert (linear(torch.ones(3, 40)) == 40).all()
        time.sleep({seconds})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_no_data_race(tmp_path: Path) -> None:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path / "team_stress"
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-pthread", f"-I{SOURCES}"]
    sources = [str(HERE / "team_stress.cpp"), str(SOURCES / "thread_team.cpp")]
    subprocess.run([*compiler.split(), *flags, *sources, "-o", str(program)], check=True)
    done = subprocess.run([program], timeout=120, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "right\n", "")
