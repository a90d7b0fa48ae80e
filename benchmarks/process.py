"""A process of a peer: started in a group of its own, talked to with time limits, and ended by whoever started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from forerun.errors import ForerunError

_PR_SET_PDEATHSIG = 1
_STOP_SECONDS = 10.0
_TAIL_LINES = 6


class Process:
    """Everything that it prints goes to ``log``, but for lines on standard output with ``speaks_lines``.

    On Linux the kernel ends it with the thread that started it, so that no server outlives a killed run.
    """

    def __init__(
        self, command: Sequence[str], log: Path, settings: Mapping[str, str], *, speaks_lines: bool = False
    ) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            self._popen = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if speaks_lines else sink,
                stderr=sink,
                env=dict(settings),
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        if self._popen.stdout is not None:
            threading.Thread(target=_forward, args=(self._popen.stdout, self._lines), daemon=True).start()

    @property
    def pid(self) -> int:
        """Leader of the group."""
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        """Whether the leader has not ended."""
        return self._popen.poll() is None

    def write_line(self, line: str) -> None:
        """Raises ForerunError where the process is gone."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(line.encode() + b"\n")
            self._popen.stdin.flush()
        except OSError as error:
            raise self.failed(f"it is gone ({error.strerror})") from error

    def read_line(self, timeout: float) -> str:
        """The next line. Raises ForerunError after ``timeout`` seconds, or when the process ends before."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty as error:
            raise self.failed(f"no answer within {timeout:.0f} s") from error
        if line is None:
            self._lines.put(None)
            raise self.failed(f"it ended with status {self._popen.wait(_STOP_SECONDS)}")
        return line.decode()

    def failed(self, found: str) -> ForerunError:
        """The error to raise, with the last lines of the log."""
        return ForerunError(f"an answer from {Path(self.log).stem}", f"{found}; {self.tail()}", f"see {self.log.name}")

    def tail(self) -> str:
        """Last lines of the log in one, so that a report can say why something wasn't run."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return " / ".join(lines[-_TAIL_LINES:]) or "no output"

    def suspend(self) -> None:
        """The whole group gets no CPU until ``resume``."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """See ``suspend``."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the whole group: politely, then not."""
        with contextlib.suppress(OSError):
            assert self._popen.stdin is not None
            self._popen.stdin.close()
        members = _group(self.pid)
        for sent in (signal.SIGTERM, signal.SIGKILL):
            self._signal(sent)
            # A suspended process hears of a polite end only when it goes on.
            self.resume()
            _, members = psutil.wait_procs(members, timeout=_STOP_SECONDS / 2)
            if not members:
                break
        self._popen.wait(_STOP_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def _group(pid: int) -> list[psutil.Process]:
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _forward(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    for line in stream:
        lines.put(line.rstrip(b"\n"))
    lines.put(None)


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_until(
    is_ready: Callable[[], bool], process: Process, timeout: float, what: str, is_over: threading.Event
) -> None:
    """Calls ``is_ready`` until it is true. Raises ForerunError when the process ends, the time is up or all is over."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if not process.is_running:
            raise process.failed(f"it ended before {what}")
        if is_ready():
            return
        if is_over.wait(0.1):
            raise process.failed(f"the run was stopped before it was {what}")
    raise process.failed(f"not {what} within {timeout:.0f} s")
