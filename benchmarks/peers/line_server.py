"""A server behind a child process that reads and writes one JSON object a line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.base import Answer, Launch, Server, Setting, Tuning
from benchmarks.process import Process
from forerun.errors import ForerunError

_REPOSITORY = Path(__file__).parents[2]


def child_command(python: Path | str, name: str, *arguments: str) -> list[str]:
    """How ``benchmarks/children/NAME.py`` is run by that interpreter; it finds its module by ``environment_of``."""
    return [str(python), "-m", f"benchmarks.children.{name}", *arguments]


def environment_of(tuning: Tuning, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The same for every engine: threads, how they wait, no network for model hubs."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "OMP_WAIT_POLICY")}
    return (
        inherited
        | {
            "PYTHONPATH": str(_REPOSITORY),
            "OMP_NUM_THREADS": str(tuning.threads),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        | ({"OMP_WAIT_POLICY": tuning.wait.upper()} if tuning.wait else {})
        | dict(more or {})
    )


class LineServer(Server):
    """Commands are ``generate`` and whatever else a child knows; an answer with ``error`` raises it."""

    def __init__(self, name: str, command: Sequence[str], settings: Mapping[str, str], launch: Launch) -> None:
        self._name = name
        self._limit = launch.answer_seconds
        self._process = Process(command, launch.logs / f"{name}.log", settings, speaks_lines=True)
        try:
            self.ready = self._read(launch.start_seconds)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """See ``Server``."""
        return self._process.pid

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """One command and its answer. Raises ForerunError where the child fails or takes too long."""
        self._process.write_line(json.dumps({"command": command, **fields}))
        return self._read(self._limit)

    def generate(self, setting: Setting, prompt: Sequence[int], num_tokens: int) -> Answer:
        """See ``Server``."""
        fields = {"method": setting.method, "options": dict(setting.options)}
        start = time.perf_counter()
        found = self.ask("generate", prompt=list(prompt), num_tokens=num_tokens, **fields)
        seconds = time.perf_counter() - start - found.get("setup_seconds", 0.0)
        require_length(setting, found["token_ids"], num_tokens)
        return Answer(
            tuple(found["token_ids"]),
            seconds,
            found["decode_seconds"],
            found["num_drafted"],
            found["num_accepted"],
            found["num_steps"],
        )

    def next_token_logprobs(self, prompt: Sequence[int], num_most: int) -> dict[int, float]:
        """See ``Server``."""
        found = self.ask("next_token_logprobs", prompt=list(prompt), num_most=num_most)
        return {int(token): float(value) for token, value in found["logprobs"]}

    def suspend(self) -> None:
        """See ``Server``."""
        self._process.suspend()

    def resume(self) -> None:
        """See ``Server``."""
        self._process.resume()

    def stop(self) -> None:
        """See ``Server``."""
        self._process.stop()

    def _read(self, timeout: float) -> dict[str, Any]:
        line = self._process.read_line(timeout)
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise self._process.failed(f"a line that is no JSON: {line[:80]!r}") from error
        if "error" in answer:
            raise ForerunError(f"an answer from {self._name}", str(answer["error"]), "see its log")
        return answer


def require_length(setting: Setting, token_ids: Sequence[int], num_tokens: int) -> None:
    """Raises ForerunError unless the peer did exactly the work that it was asked for."""
    if len(token_ids) != num_tokens:
        raise ForerunError(
            f"{num_tokens} tokens from {setting.label}", f"{len(token_ids)}", "see why it stopped in its log"
        )
