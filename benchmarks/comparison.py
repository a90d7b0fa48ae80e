"""The whole run: files, environments, prompts, choosing, measuring, divergences, and one report."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
import torch

from benchmarks.calibration import candidates, chosen, tuned, tuning_rows
from benchmarks.divergence import Divergence, Law, compare, laws, prefixes
from benchmarks.environments import build
from benchmarks.finalists import Finalists, choose, figures
from benchmarks.measure import Budget, Measurement, Watch
from benchmarks.models import resolve, tokenizer_of
from benchmarks.peers.base import Launch, NotRun, Pair, Peer, Setting, Tuning
from benchmarks.peers.forerun import ForerunPeer, ForerunServer
from benchmarks.peers.llamacpp import LlamaCppPeer
from benchmarks.peers.transformers import TransformersPeer
from benchmarks.peers.vllm import VllmPeer
from benchmarks.plan import AIMS, Plan
from benchmarks.prompts import Halves, TokenPrompt, halves
from benchmarks.record import Record
from benchmarks.report import CALIBRATE, CHOOSE, MEASURE, Report, setting_rows
from benchmarks.servers import Servers
from benchmarks.trial import Trial, agreement
from forerun.errors import ForerunError
from forerun.models.device import describe_device
from forerun.sweep.load_guard import LoadLimits

# Of the time for measuring.
_CALIBRATING_SHARE, _CHOOSING_SHARE = 0.15, 0.35
_WARM_UP = "Name three rivers of Europe and the seas that they flow into."


class Stopped(KeyboardInterrupt):
    """Raised by a signal: the report holds what there is."""


class Comparison:
    """One pair of models. ``runs`` is the folder for logs and the raw material, which ``is_resumed`` goes on with."""

    def __init__(
        self, plan: Plan, command: str, runs: Path, report: Callable[[str], None], *, is_resumed: bool = False
    ) -> None:
        self.plan = plan
        self._command = command
        self._record = Record(runs / "trials.jsonl", is_resumed=is_resumed)
        self._say = report
        self.pair = Pair(resolve(plan.target), resolve(plan.draft) if plan.draft else None)
        self._launch = Launch(self.pair, plan.threads, plan.context, runs / "logs")
        self._ours = ForerunPeer(plan.gguf_dtype)
        self._not_run: list[NotRun] = []
        self._peers = self._built({self._ours.name: self._ours} | self._wanted_peers())
        self._settings = self._all_settings()
        self._plain = next(setting for setting in self._settings if setting.peer == self._ours.name)
        self._tried = candidates(self._peers, self._settings, plan.threads)
        self._trials: list[Trial] = []

    def run(self) -> Report:
        """Raises ForerunError only where forerun itself can't run; a peer that can't is listed in the report.

        Stopped before anything was compared, it raises Stopped.
        """
        plan = self.plan
        tokenizer = tokenizer_of(self.pair.target)
        watch = Watch(LoadLimits(plan.max_foreign_share, switches_per_second=math.inf))
        with Servers(self._peers, self._launch, tokenizer.encode(_WARM_UP), self._say) as servers:
            prompts = {
                name: self._with_answers(servers, halves(name, tokenizer, plan.max_prompt, plan.seed))
                for name in plan.workloads
            }
            measurement = Measurement(servers, watch, plan.seed, self._record, self._say)
            self._trials = measurement.trials
            divergences: list[Divergence] = []
            try:
                is_complete = self._measure(servers, measurement, prompts)
                if plan.num_positions:
                    divergences = self._divergences(servers, prompts)
            except Stopped:
                if not any(trial.stage == MEASURE for trial in self._trials):
                    raise
                self._say("stopped: writing what there is")
                is_complete = False
            not_run = [*self._not_run, *servers.not_run.values()]
        return Report(
            pair=self.pair.name,
            command=self._command,
            date=datetime.now(UTC).date().isoformat(),
            machine=_machine(plan),
            is_quick=plan.is_quick,
            is_complete=is_complete,
            versions={name: peer.version() for name, peer in self._peers.items()},
            prompts={name: _described(parts) for name, parts in prompts.items()},
            figures=[row for finalists in self._finalists() for row in figures(self._trials, finalists, AIMS)],
            rows=setting_rows(self._trials, self._settings, self._plain),
            divergences=divergences,
            not_run=not_run,
            broken=self._broken(),
            tunings=tuning_rows(self._trials, self._tried, self._tunings(), self._plain),
        )

    def _measure(self, servers: Servers, measurement: Measurement, prompts: Mapping[str, Halves]) -> bool:
        """Calibrates, chooses and compares. Returns whether every prompt had its turn."""
        seconds, wholes = self.plan.seconds, []
        firsts = [prompt for parts in prompts.values() for prompt in parts.choose[:1]]
        groups = [([self._plain], self._tried)] if self._tried else []
        kept = (1 - _CALIBRATING_SHARE) * seconds
        left, is_whole = self._run(servers, measurement, CALIBRATE, groups, [firsts], seconds, kept)
        wholes.append(is_whole)
        self._settings = tuned(self._settings, self._tunings())
        groups = [([self._plain], [setting for setting in self._settings if setting != self._plain])]
        choosing = [parts.choose for parts in prompts.values()]
        kept -= _CHOOSING_SHARE * seconds
        left, is_whole = self._run(servers, measurement, CHOOSE, groups, choosing, left, kept)
        wholes.append(is_whole)
        for index, finalists in enumerate(found := self._finalists()):
            fresh, later = [prompts[finalists.workload].measure], len(found) - index - 1
            kept = left * later / (later + 1)
            left, is_whole = self._run(servers, measurement, MEASURE, finalists.groups, fresh, left, kept)
            wholes.append(is_whole)
        return all(wholes)

    def _tunings(self) -> dict[str, Tuning]:
        return chosen(self._trials, self._tried, self._plain)

    def _finalists(self) -> list[Finalists]:
        return [choose(self._trials, self._settings, name, self._plain) for name in self.plan.workloads]

    def _wanted_peers(self) -> dict[str, Peer]:
        known: list[Peer] = [LlamaCppPeer(), TransformersPeer(), VllmPeer(is_eager=self.plan.is_eager)]
        by_name = {peer.name: peer for peer in known}
        if strange := [name for name in self.plan.peers if name not in by_name]:
            raise ForerunError(f"peers among {', '.join(by_name)}", repr(strange[0]), "correct --peers")
        return {name: by_name[name] for name in self.plan.peers}

    def _built(self, peers: Mapping[str, Peer]) -> dict[str, Peer]:
        """Those whose environment is there or could be built."""
        found = {}
        for name, peer in peers.items():
            try:
                if peer.environment is not None:
                    build(peer.environment, self._say)
                found[name] = peer
            except ForerunError as error:
                self._not_run.append(NotRun(name, str(error)))
                self._say(f"not run: {name}: {error}")
        return found

    def _all_settings(self) -> list[Setting]:
        found: list[Setting] = []
        for peer in self._peers.values():
            settings = peer.settings(self.pair, has_few=self.plan.has_few_settings)
            found += settings.run
            self._not_run += settings.left_out
        return found

    def _with_answers(self, servers: Servers, parts: Halves) -> Halves:
        """As many prompts as are planned, with forerun's plain answers; prompts with short answers are passed over."""
        choosing = self._answered(servers, parts.choose, self.plan.num_choose)
        return Halves(choosing, self._answered(servers, parts.measure, self.plan.num_measure))

    def _answered(self, servers: Servers, prompts: Sequence[TokenPrompt], num_wanted: int) -> tuple[TokenPrompt, ...]:
        server = servers.ready(self._plain)
        if not isinstance(server, ForerunServer):
            raise ForerunError("forerun to run", servers.not_run[self._plain].reason, "see its log")
        found: list[TokenPrompt] = []
        for prompt in prompts:
            if len(found) == num_wanted:
                break
            self._say(f"answer: {prompt.workload} {len(found) + 1}/{num_wanted}")
            answer = server.natural_answer(prompt.token_ids, self.plan.max_tokens)
            if len(answer) >= self.plan.min_tokens:
                found.append(replace(prompt, answer=tuple(answer)))
        return tuple(found)

    def _run(
        self,
        servers: Servers,
        measurement: Measurement,
        stage: str,
        groups: Sequence[tuple[Sequence[Setting], Sequence[Setting]]],
        prompts: Sequence[Sequence[TokenPrompt]],
        left: float,
        kept: float,
    ) -> tuple[float, bool]:
        """Each group in waves that memory holds, its first settings in all of them: every ratio is of neighbours.

        Of the seconds ``left``, some are ``kept`` for what comes later. Returns those left afterwards, and whether
        every prompt had its turn.
        """
        waves = [wave for ours, theirs in groups for wave in servers.waves(ours, theirs)]
        parts = [(wave, members) for wave in waves for members in prompts]
        budget = Budget(left - kept, [len(wave) for wave, _ in parts])
        is_complete = all([measurement.run(stage, wave, members, budget) for wave, members in parts])
        return kept + budget.seconds_left, is_complete

    def _divergences(self, servers: Servers, prompts: Mapping[str, Halves]) -> list[Divergence]:
        """Every plain setting beside fp32 arithmetic, engine by engine."""
        texts = [(prompt.token_ids, prompt.answer) for parts in prompts.values() for prompt in parts.measure]
        contexts = prefixes(texts, self.plan.num_positions, self.plan.seed)
        found: dict[Setting, list[Law]] = {}
        for setting in [setting for setting in self._settings if setting.is_plain]:
            servers.start([setting])
            if (server := servers.ready(setting)) is not None:
                self._say(f"divergences of {setting.label}, {len(contexts)} positions")
                found[setting] = laws(server.next_token_logprobs, contexts)
                servers.drop(setting)
        servers.keep(())
        self._say("fp32 arithmetic at the same positions")
        exact = self._ours.start_with("float32", self._plain, self._launch)
        try:
            reference = laws(exact.next_token_logprobs, contexts)
        finally:
            exact.stop()
        return [compare(setting.label, reference, theirs) for setting, theirs in found.items()]

    def _broken(self) -> list[str]:
        """forerun's settings of equal weights must give one text."""
        plains = {s.weights: s for s in self._settings if s.peer == self._ours.name and s.is_plain}
        ours = [setting for setting in self._settings if setting.peer == self._ours.name]
        texts = {setting: agreement(self._trials, setting, plains[setting.weights]) for setting in ours}
        return [setting.label for setting, found in texts.items() if found.num_same < found.num_texts]


def _machine(plan: Plan) -> str:
    device = describe_device(torch.device("cpu"))
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    load = f"an answer is spoiled where anything else took more than {plan.max_foreign_share:.0%} of the CPUs"
    return f"{device.name}, {device.driver}, {psutil.cpu_count()} CPUs, {plan.threads} threads, {system}; {load}"


def _described(parts: Halves) -> str:
    def of(prompts: Sequence[TokenPrompt]) -> str:
        if not prompts:
            return "none"
        lengths = sorted(len(prompt.token_ids) for prompt in prompts)
        answers = sorted(prompt.num_tokens for prompt in prompts)
        spans = f"{lengths[0]} to {lengths[-1]} tokens, answered in {answers[0]} to {answers[-1]}"
        return f"{len(prompts)} ({spans})"

    return f"to choose on {of(parts.choose)}, to compare on {of(parts.measure)}"
