"""A whole tune: expand the plan, prepare each target, measure, choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from forerun.backends.base import Backend
from forerun.conditions import Conditions, of_machine, require_comparable
from forerun.engine.drafting import Drafting
from forerun.errors import ForerunError
from forerun.sweep.cells import Cell, CellState
from forerun.sweep.check import check
from forerun.sweep.choose import choose, inflation, num_comparisons
from forerun.sweep.curve import curves
from forerun.sweep.load_guard import LoadLimits, LoadSample, read_machine
from forerun.sweep.looping import looping_outputs
from forerun.sweep.measuring import MAX_ATTEMPTS_PER_PAIR, Measured, Measuring
from forerun.sweep.parts import Parts
from forerun.sweep.plan import Plan
from forerun.sweep.preparation import Material, Preparation, prepare, sampling_of
from forerun.sweep.progress import Deadline, Progress
from forerun.sweep.results import CellResult, Gap, TuneResult
from forerun.sweep.run_directory import RunDirectory
from forerun.sweep.summary import not_measured, summarise
from forerun.sweep.trial import Trial, drafting_of
from forerun.sweep.trials import Run
from forerun.workloads.prompt_set import prompt_set_hash
from forerun.workloads.workload import Workload

# The fields of Conditions that a plan varies, and those that follow from them.
AXES: Final = (
    "target", "drafter", "method", "num_speculative_tokens", "flags", "task", "sampling", "concurrency", "batch",
    "prompt_set_hash", "prompt_set_size", "context", "kv_dtype",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tuner:
    """Runs a plan over backends, one per target. ``warm_corpus`` are token sequences per target, or nothing.

    ``sample_load`` reads the machine around each trial.
    """

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
    sample_load: Callable[[], LoadSample] = read_machine

    def tune(self) -> TuneResult:
        """Measures what isn't measured yet, and puts everything together.

        Raises ``ForerunError`` before the first measurement for what no engine here can run.
        """
        started = of_machine()
        checked = check(self.plan, self.workloads, self.backends, self.warm_corpus)
        cells, refused = checked.cells, checked.refused
        materials = {workload.name: Material.of(workload, self.plan) for workload in self.workloads}
        results: list[CellResult] = []
        preparations: dict[str, Preparation] = {}
        for number, target in enumerate(self.plan.targets):
            ours = [cell for cell in cells if cell.target == target and cell not in refused]
            results += [
                not_measured(cell, CellState.REFUSED, reason)
                for cell, reason in refused.items()
                if cell.target == target
            ]
            if not ours:
                continue
            deadline = self.deadline.share(len(self.plan.targets) - number)
            preparation = self._prepare(target, ours, materials, deadline)
            preparations[target] = preparation
            results += self._measure(target, ours, preparation, materials, started, deadline)
        place = {cell: index for index, cell in enumerate(cells)}
        results.sort(key=lambda result: place[result.cell])
        return self._assemble(started, results, preparations, [*checked.gaps, *self._notes(materials)])

    def _prepare(
        self, target: str, cells: Sequence[Cell], materials: Mapping[str, Material], deadline: Deadline
    ) -> Preparation:
        backend, corpus = self.backends[target], self.warm_corpus.get(target, ())
        parts = Parts(self.run, target)
        return prepare(self.plan, backend, cells, materials, corpus, deadline, self.progress, parts)

    def _measure(
        self,
        target: str,
        cells: Sequence[Cell],
        preparation: Preparation,
        materials: Mapping[str, Material],
        started: Conditions,
        deadline: Deadline,
    ) -> list[CellResult]:
        backend, corpus = self.backends[target], self.warm_corpus.get(target, ())
        finished = self.run.finished_cells()
        measuring = Measuring(
            self.plan,
            backend,
            Trial(backend, self.limits, corpus, self.may_execute, self.sample_load),
            self.run,
            self.directory,
            materials,
            preparation.max_tokens,
            preparation.forecaster(backend, corpus),
            deadline,
            self.progress,
        )
        measured = measuring.measure(
            [cell for cell in preparation.picks if cell not in finished],
            [cell for cell in preparation.runners_up if cell not in finished],
        )
        results = []
        for cell in cells:
            if cell not in finished:
                state = measured.get(cell, Measured(cell, []))
                finished[cell] = self._settle(state, preparation, materials[cell.workload], started)
                # What had no time, or no engine, may have it when the run is resumed.
                is_open = finished[cell].state in (CellState.NOT_RUN, CellState.UNREACHABLE)
                if not is_open and not self._is_cut_short(finished[cell]):
                    self.run.record_cell(finished[cell])
            results.append(finished[cell])
        return results

    def _settle(
        self, measured: Measured, preparation: Preparation, material: Material, started: Conditions
    ) -> CellResult:
        cell = measured.cell
        prediction = preparation.predictions.get(cell)
        if cell in preparation.refusals:
            return not_measured(cell, CellState.REFUSED, preparation.refusals[cell])
        if measured.ending is not None:
            return not_measured(cell, measured.ending.state, measured.ending.reason, prediction=prediction)
        if not measured.pairs:
            return not_measured(cell, CellState.NOT_RUN, self._why_not_run(cell, preparation), prediction=prediction)
        conditions = self._conditions(measured, preparation, material, started)
        is_control = material.workload.is_control
        result = summarise(cell, measured.pairs, prediction=prediction, conditions=conditions, is_control=is_control)
        if self._is_cut_short(result):
            return replace(result, reason=f"{result.reason}; {self._time_is_up}")
        return result

    def _why_not_run(self, cell: Cell, preparation: Preparation) -> str:
        if cell in preparation.picks:
            return self._time_is_up
        if (cell.workload, cell.temperature) in preparation.unrecorded:
            return f"no text was recorded: {self._time_is_up}"
        if cell not in preparation.predictions:
            return "nothing to predict from: the recorded text ended before a round was run"
        if cell in preparation.runners_up:
            return f"close to the best by prediction, but {self._time_is_up}"
        if not any(self.run.pairs(pick) for pick in preparation.picks if pick.setting == cell.setting):
            return f"replayed over recorded text alone: {self._time_is_up}"
        return "replayed over recorded text, another candidate promised more"

    @property
    def _time_is_up(self) -> str:
        return f"the time budget of {self.plan.time_budget or 0:.0f} s was used up"

    def _conditions(
        self, measured: Measured, preparation: Preparation, material: Material, started: Conditions
    ) -> Conditions:
        cell = measured.cell
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
            started_at=started.started_at,
            load=round(measured.pairs[0].off.load.load_average, 2),
        ).ended()

    def _notes(self, materials: Mapping[str, Material]) -> list[Gap]:
        """What was done with less than it should have been."""
        gaps = []
        if self.plan.is_past_end:
            reason = "text past the natural end was asked for: it repeats itself more and drafts better than answers"
            gaps.append(Gap("answers that end by themselves", CellState.NOT_RUN, reason))
        for name, material in materials.items():
            if set(material.choose) & set(material.measure):
                gaps.append(
                    Gap(f"prompts of {name} to choose on", CellState.NOT_RUN, "a single prompt served for both")
                )
        return gaps

    def _conflicts(self, results: Sequence[CellResult]) -> list[Gap]:
        """Cells whose conditions differ in more than the plan's axes are not to be compared: said, field by field."""
        known = [result.conditions for result in results if result.conditions is not None]
        gaps: dict[str, Gap] = {}
        for other in known[1:]:
            try:
                require_comparable(known[0], other, AXES)
            except ForerunError as error:
                gaps.setdefault(error.found, Gap("a comparison of all cells", CellState.REFUSED, str(error)))
        return list(gaps.values())

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
            (*gaps, *self._conflicts(results)),
            tuple(looping_outputs(self.run, self.directory, [result.cell for result in results], controls)),
            controls,
            num_comparisons(results),
            sum(self._num_unfinished(results, preparation) for preparation in preparations.values()),
        )

    def _num_unfinished(self, results: Sequence[CellResult], preparation: Preparation) -> int:
        """Picks whose least number of pairs, and settings whose plain text, had no time."""
        picks = set(preparation.picks)
        cut_short = [one for one in results if one.cell in picks and self._is_cut_short(one)]
        return len(cut_short) + len(preparation.unrecorded)

    def _is_cut_short(self, result: CellResult) -> bool:
        """Whether a cell lacks pairs that it would still be given, had it more time."""
        if result.state not in (CellState.NOT_RUN, CellState.SPOILED):
            return False
        return len(self.run.pairs(result.cell)) < MAX_ATTEMPTS_PER_PAIR * self.plan.min_pairs

    def _shared_conditions(self, started: Conditions, results: Sequence[CellResult]) -> Conditions:
        """The fields on which all measured cells agree, with the start and the end of the whole."""
        known = [result.conditions for result in results if result.conditions is not None]
        if not known:
            # Nothing was measured, but what was to be measured is known.
            backend = next(iter(self.backends.values()))
            params = sampling_of(self.plan, self.plan.temperatures[0], self.plan.max_tokens)
            known = [backend.conditions(Drafting(), params, concurrency=self.plan.concurrency[0], drafter="")]
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
