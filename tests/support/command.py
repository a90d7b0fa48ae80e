"""The command line as tests drive it: in this process or in a child, and what its refusals must look like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TinyModels:
    """Directories: a target, a draft model of its tokenizer, one of another, a target with a short context.

    Their tokens are bytes. ``fluent`` and its draft model know pieces of words, so that long prompts have few tokens.
    """

    target: str
    draft: str
    foreign: str
    short: str
    fluent: str
    fluent_draft: str


@dataclass(frozen=True)
class Outcome:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        assert self.code == 0, self.err
        read: dict[str, Any] = json.loads(self.out)
        return read


Run = Callable[..., Outcome]


def start(*words: object, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
    """``python -m forerun`` in a process of its own; ``environment`` stands over ours."""
    return subprocess.Popen(
        [sys.executable, "-m", "forerun", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def finish(process: subprocess.Popen[str], timeout: float = 120) -> Outcome:
    """Waits for a child, and never leaves it behind."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Outcome(process.returncode, out or "", err or "")


def refused(outcome: Outcome) -> str:
    """The single line of a refusal: what was expected, what was found, what to do."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    line = outcome.err.removesuffix("\n")
    assert "\n" not in line, outcome.err
    assert line.startswith("forerun: expected ")
    _, found, rest = line.partition("; found ")
    assert found and "; " in rest
    return line


def listing(directory: Path) -> set[str]:
    """Every path below a directory."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}
