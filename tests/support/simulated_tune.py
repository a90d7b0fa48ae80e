"""A whole tune over simulated backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forerun.sweep.plan import Plan
from forerun.sweep.progress import Deadline
from forerun.sweep.results import TuneResult
from forerun.sweep.run_directory import RunDirectory
from forerun.sweep.trials import TrialStore
from forerun.sweep.tuner import Tuner
from forerun.workloads.prompt import Prompt
from forerun.workloads.workload import Workload
from support.fake_backend import FakeBackend, Machine

NUM_PROMPTS = 24


def workload(name: str, *, num_prompts: int = NUM_PROMPTS, is_control: bool = False) -> Workload:
    prompts = tuple(Prompt(f"{name}-{index}", name, text=f"{name} {index}") for index in range(num_prompts))
    return Workload(name, prompts, is_control)


@dataclass
class Listener:
    """Remembers what the sweep said."""

    stages: list[str] = field(default_factory=list)
    steps: list[tuple[int, int, float | None]] = field(default_factory=list)

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def advance(self, num_done: int, num_total: int, seconds_left: float | None) -> None:
        self.steps.append((num_done, num_total, seconds_left))


def plan_of(**fields: Any) -> Plan:
    """One target named ``t`` and a serial drafter, unless told otherwise."""
    defaults = {
        "targets": ["t"],
        "methods": ["draft_model"],
        "drafters": [{"method": "draft_model", "artifact": "small"}],
        "n": [1, 2, 3, 5, 7],
        "max_tokens": 48,
    }
    return Plan.model_validate(defaults | fields)


def tune(
    path: Path,
    plan: Plan,
    backends: FakeBackend | dict[str, FakeBackend],
    workloads: Sequence[Workload] | None = None,
    *,
    warm_corpus: dict[str, list[list[int]]] | None = None,
    progress: Listener | None = None,
) -> TuneResult:
    """Runs or resumes the plan in ``path``; the run ends unless it was out of time."""
    by_target = {"t": backends} if isinstance(backends, FakeBackend) else backends
    machine: Machine = next(iter(by_target.values())).machine
    path.mkdir(exist_ok=True)
    with TrialStore(path / "trials.sqlite") as store:
        run = store.open_run(plan)
        result = Tuner(
            plan,
            workloads if workloads is not None else [workload("fresh")],
            by_target,
            run,
            RunDirectory(path, run.run_id),
            Deadline(plan.time_budget, machine.now, machine.clock),
            progress or Listener(),
            warm_corpus or {},
            sample_load=machine.sample,
        ).tune()
        if result.is_finished:
            run.finish(result)
    return result
