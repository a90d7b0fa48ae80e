"""Processes of peers: they answer in time or raise, and nothing of them outlives a stop."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from threading import Event

import psutil
import pytest
from benchmarks.peers.base import Launch, Tuning
from benchmarks.peers.line_server import LineServer, child_command, environment_of
from benchmarks.process import Process, wait_until
from fake_peer import LAUNCH, setting

from forerun.errors import ForerunError

ENVIRONMENT = dict(os.environ)
ECHO = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"


def start(code: str, tmp_path: Path) -> Process:
    return Process([sys.executable, "-c", code], tmp_path / "child.log", ENVIRONMENT, speaks_lines=True)


def test_lines_go_there_and_back(tmp_path: Path) -> None:
    process = start(ECHO, tmp_path)
    process.write_line("one")
    assert process.read_line(20) == "heard one"
    process.stop()
    assert not process.is_running


def test_silence_ends_in_an_error(tmp_path: Path) -> None:
    process = start("import time; time.sleep(60)", tmp_path)
    with pytest.raises(ForerunError, match="no answer within 0 s"):
        process.read_line(0.1)
    process.stop()


def test_an_end_tells_the_last_words(tmp_path: Path) -> None:
    process = start("import sys; print('out of memory', file=sys.stderr); sys.exit(3)", tmp_path)
    with pytest.raises(ForerunError, match=r"status 3; out of memory"):
        process.read_line(20)
    with pytest.raises(ForerunError, match="status 3"):  # every further question gets the same answer
        process.read_line(20)
    process.stop()


def test_stop_ends_children_of_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid, flush=True)\n"
        "import time; time.sleep(60)"
    )
    process = start(code, tmp_path)
    grandchild = int(process.read_line(20))
    assert psutil.pid_exists(grandchild)
    process.stop()
    end = time.monotonic() + 10
    while psutil.pid_exists(grandchild) and psutil.Process(grandchild).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_suspended_process_does_nothing_until_it_goes_on(tmp_path: Path) -> None:
    process = start(ECHO, tmp_path)
    process.write_line("one")
    assert process.read_line(20) == "heard one"
    process.suspend()
    process.write_line("two")
    with pytest.raises(ForerunError, match="no answer"):
        process.read_line(0.3)
    process.resume()
    assert process.read_line(20) == "heard two"
    process.stop()


def test_a_suspended_process_hears_of_its_end(tmp_path: Path) -> None:
    code = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *a: (print('bye', flush=True), sys.exit(0)))\n"
    process = start(code + "print('here', flush=True)\nimport time; time.sleep(60)", tmp_path)
    assert process.read_line(20) == "here"
    process.suspend()
    process.stop()
    assert process.read_line(1) == "bye" and not process.is_running


def test_waiting_ends_with_the_process_or_the_time(tmp_path: Path) -> None:
    gone = Process([sys.executable, "-c", ""], tmp_path / "gone.log", ENVIRONMENT)
    with pytest.raises(ForerunError, match="it ended before ready"):
        wait_until(lambda: False, gone, 20, "ready", Event())
    slow = start("import time; time.sleep(60)", tmp_path)
    with pytest.raises(ForerunError, match="not ready within"):
        wait_until(lambda: False, slow, 0.3, "ready", Event())
    over = Event()
    over.set()
    with pytest.raises(ForerunError, match="stopped before it was ready"):
        wait_until(lambda: False, slow, 20, "ready", over)
    slow.stop()


CHILD = """
from benchmarks.children.lines import serve

def generate(prompt, num_tokens, method, options):
    print("chatter of a library")
    if method == "broken":
        raise ValueError("no such method")
    return {"token_ids": prompt[:num_tokens], "decode_seconds": 0.0, "num_drafted": 3, "num_accepted": 2,
            "num_steps": 1, "setup_seconds": 0.5}

serve(lambda: {"version": "1"}, {"generate": generate})
"""


def line_server(tmp_path: Path) -> LineServer:
    launch = Launch(LAUNCH.pair, 1, 256, tmp_path, start_seconds=30, answer_seconds=30)
    return LineServer("child", [sys.executable, "-c", CHILD], environment_of(Tuning(1)), launch)


def test_a_child_answers_whatever_its_libraries_print(tmp_path: Path) -> None:
    server = line_server(tmp_path)
    found = server.generate(setting("child"), (4, 5, 6), 3)
    assert found.token_ids == (4, 5, 6) and (found.num_drafted, found.num_accepted) == (3, 2)
    assert found.seconds < 0  # half a second of setting up is taken off what took a moment
    server.stop()
    assert "chatter" in (tmp_path / "child.log").read_text()


def test_too_few_tokens_and_errors_are_raised(tmp_path: Path) -> None:
    server = line_server(tmp_path)
    with pytest.raises(ForerunError, match="4 tokens from child plain"):
        server.generate(setting("child"), (4, 5, 6), 4)
    with pytest.raises(ForerunError, match="ValueError: no such method"):
        server.generate(setting("child", "broken"), (4,), 1)
    assert server.generate(setting("child"), (4, 5), 2).token_ids == (4, 5)  # it goes on
    server.stop()


def test_threads_and_how_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = environment_of(Tuning(3, "passive"), {"MORE": "1"})
    assert (settings["OMP_NUM_THREADS"], settings["OMP_WAIT_POLICY"], settings["MORE"]) == ("3", "PASSIVE", "1")
    # Without a policy the library's own holds, whatever the person who runs this has set.
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert "OMP_WAIT_POLICY" not in environment_of(Tuning(1))
    assert child_command("python", "x_child", "--a")[1:] == ["-m", "benchmarks.children.x_child", "--a"]
