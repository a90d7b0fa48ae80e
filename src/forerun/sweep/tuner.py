"""A whole tune: expand the plan, prepare each target, measure, choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forerun.backends.base import Backend
from forerun.conditions import Conditions, of_machine
from forerun.errors import ForerunError
from forerun.sweep import serialise
from forerun.sweep.cells import Cell, CellState
from forerun.sweep.choose import choose, inflation, num_comparisons
from forerun.sweep.curve import curves
from forerun.sweep.expand import expand
from forerun.sweep.load_guard import LoadLimits
from forerun.sweep.measurements import PairResult
from forerun.sweep.measuring import Measuring
from forerun.sweep.plan import Plan
from forerun.sweep.preparation import Material, Preparation, prepare, sampling_of
from forerun.sweep.progress import Deadline, Progress
from forerun.sweep.results import CellResult, Gap, LoopingOutput, TuneResult
from forerun.sweep.run_directory import RunDirectory
from forerun.sweep.summary import not_measured, summarise
from forerun.sweep.trial import Trial, drafting_of
from forerun.sweep.trials import Run
from forerun.workloads.prompt_set import prompt_set_hash
from forerun.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Tuner:
    """Runs a plan over backends, one per target. ``warm_corpus`` are token sequences per target, or nothing."""

    plan: Plan
    workloads: Sequence[Workload]
    backends: Mapping[str, Backend]
    run: Run
    directory: RunDirectory
    deadline: Deadline
    progress: Progress
    warm_corpus: Mapping[str, Sequence[Sequence[int]]]
    may_execute: bool = False
    limits: LoadLimits = field(default_factory=LoadLimits)

    def tune(self) -> TuneResult:
        """Measures what isn't measured yet, and puts everything together.

        Raises ``ForerunError`` before the first measurement for what no engine here can run.
        """
        started = of_machine()
        cells, gaps = expand(self.plan, [workload.name for workload in self.workloads])
        if not cells:
            raise ForerunError(
                "at least one method with a candidate", "; ".join(str(gap.what) for gap in gaps) or "none", "name one"
            )
        materials = {workload.name: Material.of(workload, self.plan) for workload in self.workloads}
        self._check(cells, materials)
        results: list[CellResult] = []
        preparations: dict[str, Preparation] = {}
        for number, target in enumerate(self.plan.targets):
            ours = [cell for cell in cells if cell.target == target]
            deadline = self._share(number)
            preparation = self._prepare(target, ours, materials, deadline)
            preparations[target] = preparation
            results += self._measure(target, ours, preparation, materials, deadline)
        return self._assemble(started, results, preparations, [*gaps, *self._notes(materials)])

    def _share(self, number: int) -> Deadline:
        """Each target gets an even share of the time that is left."""
        if self.deadline.budget is None:
            return self.deadline
        share = self.deadline.left / (len(self.plan.targets) - number)
        return Deadline(self.deadline.elapsed + share, self.deadline.started)

    def _check(self, cells: Sequence[Cell], materials: Mapping[str, Material]) -> None:
        """Refuse before measuring: ways of drafting that can't run, prompts that don't fit."""
        for target in self.plan.targets:
            backend = self.backends[target]
            for candidate in dict.fromkeys(cell.candidate for cell in cells if cell.target == target):
                backend.check(drafting_of(candidate), candidate.drafter)
            if backend.probe is None:
                continue
            context = backend.probe.traits.max_context
            for prompt in (p for material in materials.values() for p in material.workload.prompts):
                length = len(backend.prompt_ids(prompt))
                if length + 2 > context:
                    raise ForerunError(
                        f"prompts that fit {target}'s context of {context} tokens",
                        f"{prompt.id} with {length} tokens",
                        "shorten it or leave it out",
                    )

    def _prepare(
        self, target: str, cells: Sequence[Cell], materials: Mapping[str, Material], deadline: Deadline
    ) -> Preparation:
        """What was settled before, if the run is resumed."""
        note = f"preparation {target}"
        settled = self.run.note(note)
        if settled is not None:
            return serialise.from_json(Preparation, settled)
        backend, corpus = self.backends[target], self.warm_corpus.get(target, ())
        preparation = prepare(self.plan, backend, cells, materials, corpus, deadline, self.progress)
        self.run.record_note(note, serialise.to_json(preparation))
        return preparation

    def _measure(
        self,
        target: str,
        cells: Sequence[Cell],
        preparation: Preparation,
        materials: Mapping[str, Material],
        deadline: Deadline,
    ) -> list[CellResult]:
        backend, corpus = self.backends[target], self.warm_corpus.get(target, ())
        finished = self.run.finished_cells()
        measuring = Measuring(
            self.plan,
            backend,
            Trial(backend, self.limits, corpus, self.may_execute),
            self.run,
            self.directory,
            materials,
            preparation.max_tokens,
            preparation.forecaster(backend, corpus),
            deadline,
            self.progress,
        )
        measured = measuring.measure([cell for cell in preparation.selected if cell not in finished])
        results = []
        for cell in cells:
            if cell not in finished:
                pairs, refusal = measured.get(cell, ([], ""))
                finished[cell] = self._settle(cell, pairs, refusal, preparation, materials)
                self.run.record_cell(finished[cell])
            results.append(finished[cell])
        return results

    def _settle(
        self,
        cell: Cell,
        pairs: Sequence[PairResult],
        refusal: str,
        preparation: Preparation,
        materials: Mapping[str, Material],
    ) -> CellResult:
        prediction = preparation.predictions.get(cell)
        if refusal:
            return not_measured(cell, CellState.REFUSED, refusal, prediction=prediction)
        if pairs:
            conditions = self._conditions(cell, preparation, materials[cell.workload])
            is_control = materials[cell.workload].workload.is_control
            return summarise(cell, pairs, prediction=prediction, conditions=conditions, is_control=is_control)
        if cell in preparation.selected:
            reason = f"the time budget of {self.plan.time_budget:.0f} s was used up" if self.plan.time_budget else ""
        else:
            reason = "replayed over recorded text, another candidate promised more" if prediction else "never drafted"
        return not_measured(cell, CellState.NOT_RUN, reason, prediction=prediction)

    def _conditions(self, cell: Cell, preparation: Preparation, material: Material) -> Conditions:
        params = sampling_of(self.plan, cell.temperature, preparation.max_tokens)
        backend, candidate = self.backends[cell.target], cell.candidate
        known = backend.conditions(
            drafting_of(candidate), params, concurrency=cell.concurrency, drafter=candidate.drafter
        )
        warm = f"corpus warmed from {self.plan.warm_corpus}" if self.plan.warm_corpus else "cold"
        return replace(
            known,
            task=cell.workload,
            cache_state=warm,
            prompt_set_hash=prompt_set_hash(material.measure),
            prompt_set_size=len(material.measure),
            harness="forerun tune, pairs in turn in one process",
            sampling=f"{known.sampling}, seeds {list(self.plan.seeds)}",
        )

    def _notes(self, materials: Mapping[str, Material]) -> list[Gap]:
        """What was done with less than it should have been."""
        gaps = []
        for name, material in materials.items():
            if set(material.choose) & set(material.measure):
                gaps.append(
                    Gap(f"prompts of {name} to choose on", CellState.NOT_RUN, "a single prompt served for both")
                )
            num_later = sum(bool(prompt.later_turns) for prompt in material.workload.prompts)
            if num_later:
                gaps.append(Gap(f"later turns of {num_later} prompts of {name}", CellState.NOT_RUN, "first turns only"))
        return gaps

    def _assemble(
        self,
        started: Conditions,
        results: Sequence[CellResult],
        preparations: Mapping[str, Preparation],
        gaps: Sequence[Gap],
    ) -> TuneResult:
        controls = tuple(workload.name for workload in self.workloads if workload.is_control)
        return TuneResult(
            self.run.run_id,
            self.plan.hash,
            self.plan.model_dump_json(),
            self.plan.quick,
            self._shared_conditions(started, results),
            tuple(results),
            curves(results),
            choose(results, controls),
            inflation(results, controls),
            tuple(p.target_cost for p in preparations.values() if p.target_cost is not None),
            tuple(table for p in preparations.values() for table in p.draft_costs),
            tuple(gaps),
            tuple(self._looping(results)),
            controls,
            num_comparisons(results),
        )

    def _shared_conditions(self, started: Conditions, results: Sequence[CellResult]) -> Conditions:
        """The fields on which all measured cells agree, with the start and the end of the whole."""
        known = [result.conditions for result in results if result.conditions is not None]
        if not known:
            return started.ended()
        empty = Conditions()
        agreed = {
            name: getattr(known[0], name)
            if all(getattr(one, name) == getattr(known[0], name) for one in known)
            else getattr(empty, name)
            for name in Conditions.__dataclass_fields__
        }
        return replace(
            Conditions(**agreed), started_at=started.started_at, load=started.load, commit=started.commit
        ).ended()

    def _looping(self, results: Sequence[CellResult]) -> list[LoopingOutput]:
        """Looping outputs of ordinary workloads, once per prompt."""
        found: dict[tuple[str, str], LoopingOutput] = {}
        controls = {workload.name for workload in self.workloads if workload.is_control}
        for result in results:
            if result.cell.workload in controls:
                continue
            for pair in self.run.pairs(result.cell):
                for outcome in pair.off.prompts:
                    if outcome.is_looping:
                        entry = LoopingOutput(result.cell.setting, outcome.prompt_id, outcome.repetition, "")
                        found.setdefault((result.cell.target, outcome.prompt_id), entry)
        return list(found.values())
