"""Engines in turn on each prompt, in an order that changes, with the machine watched around every answer."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.load import read_machine
from benchmarks.peers.base import Answer, Server, Setting
from benchmarks.prompts import TokenPrompt
from benchmarks.record import Record
from benchmarks.servers import Servers
from benchmarks.trial import Trial
from forerun.errors import ForerunError
from forerun.sweep.load_guard import LoadLimits, LoadSample, between

_NUM_TRIES = 3
# Threads of the engine before may still be waiting actively.
_SETTLE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Watch:
    """What spoils an answer, where a machine is read (replaced in tests), and how long engines get to come to rest."""

    limits: LoadLimits
    read: Callable[[int], LoadSample] = read_machine
    settle_seconds: float = _SETTLE_SECONDS


class Budget:
    """Seconds for measuring, shared by size among the parts still to come: what one leaves over, the others get."""

    def __init__(self, seconds: float, sizes: Sequence[int]) -> None:
        self.seconds_left = seconds
        self._sizes_left = list(sizes)

    @contextlib.contextmanager
    def part(self) -> Iterator[float]:
        """One part; yields when it must be over, on the monotonic clock."""
        begin = time.monotonic()
        try:
            yield begin + self.seconds_left * self._sizes_left[0] / sum(self._sizes_left)
        finally:
            self.seconds_left -= time.monotonic() - begin
            self._sizes_left.pop(0)


class Measurement:
    """Collects trials; ``round`` counts the prompts of all stages. What ``record`` has already isn't measured again."""

    def __init__(
        self, servers: Servers, watch: Watch, seed: int, record: Record, report: Callable[[str], None]
    ) -> None:
        self.trials: list[Trial] = []
        self._record = record
        self._servers = servers
        servers.not_run.update(record.not_run)
        self._watch = watch
        self._order = random.Random(seed)
        self._report = report
        self._round = max((trial.round for trial in record.earlier), default=0)

    def run(self, stage: str, settings: Sequence[Setting], prompts: Sequence[TokenPrompt], budget: Budget) -> bool:
        """All settings on every prompt, prompt by prompt. False where the time was up before the last one began.

        Starting servers doesn't count, and the first prompt is always run.
        """
        earlier = {prompt.id: self._record.round(stage, settings, prompt) for prompt in prompts}
        if not all(earlier.values()):
            self._servers.start(settings)
        with budget.part() as ends_at:
            for index, prompt in enumerate(prompts):
                if earlier[prompt.id]:
                    self.trials += earlier[prompt.id]
                    continue
                if index and time.monotonic() >= ends_at:
                    return False
                self._report(f"{stage}: {prompt.workload} {index + 1}/{len(prompts)}, {len(settings)} settings")
                self._round += 1
                for setting in self._order.sample(settings, len(settings)):
                    self._try(stage, setting, prompt)
                self._record.add_not_run(self._servers.not_run)
        return True

    def _try(self, stage: str, setting: Setting, prompt: TokenPrompt) -> None:
        """Until an answer was given on a quiet machine, or the tries are used up. Everything is cold each time."""
        for _ in range(_NUM_TRIES):
            server = self._servers.ready(setting)
            if server is None:
                return
            try:
                answer, spoiled = self._watched(server, setting, prompt)
            except ForerunError as error:
                self._servers.fail(setting, error)
                return
            finally:
                if self._servers.is_restarted(setting):
                    self._servers.drop(setting)
            trial = Trial(stage, self._round, prompt.workload, prompt.id, setting, answer, spoiled)
            self.trials.append(trial)
            self._record.add(trial)
            if trial.is_kept:
                return

    def _watched(self, server: Server, setting: Setting, prompt: TokenPrompt) -> tuple[Answer, str]:
        time.sleep(self._watch.settle_seconds)
        before = self._watch.read(server.pid)
        answer = server.generate(setting, prompt.token_ids, prompt.num_tokens)
        reading = between(before, self._watch.read(server.pid))
        return answer, self._watch.limits.spoiled_by(reading)
