"""Everything a sweep settles for a target before the first pair: output length, C and D, forecasts, what to measure.

Each of its parts is kept with the run as it ends: a resumed run goes on from there, and measures what was decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from forerun.backends.base import Backend, CostProbe
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import Cell
from forerun.sweep.cost_model import DraftCost, Prediction, TargetCost
from forerun.sweep.costs import families_of, measure_c, measure_d, measure_overhead, most_rows
from forerun.sweep.fitting_length import fitting_length
from forerun.sweep.forecast import Forecaster, record_texts
from forerun.sweep.parts import Parts
from forerun.sweep.plan import Plan
from forerun.sweep.progress import Deadline, Progress
from forerun.sweep.results import DraftCostTable, TargetCostTable
from forerun.sweep.selection import Role, select
from forerun.workloads.prompt import Prompt
from forerun.workloads.prompt_set import split
from forerun.workloads.workload import Workload

QUICK_CHOOSING_PROMPTS = 4
PROBE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Material:
    """A workload's prompts: some to choose on, the others to measure on."""

    workload: Workload
    choose: tuple[Prompt, ...]
    measure: tuple[Prompt, ...]

    @classmethod
    def of(cls, workload: Workload, plan: Plan) -> Material:
        """Halves of the workload; a single prompt has to serve for both."""
        halves = split(workload.prompts, plan.seeds[0])
        choose = halves.choose[:QUICK_CHOOSING_PROMPTS] if plan.quick else halves.choose
        return cls(workload, choose or halves.measure, halves.measure)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A cell and what is expected of it; ``None`` where the engine can't be looked into or ran no round.

    ``refusal``: why the engine wouldn't draft so.
    """

    cell: Cell
    prediction: Prediction | None
    role: Role
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What was settled for one target. Without a probe there are no costs and no predictions.

    ``unrecorded`` are the workloads and temperatures whose plain texts had no time.
    """

    max_tokens: int
    target_cost: TargetCostTable | None
    draft_costs: tuple[DraftCostTable, ...]
    forecasts: tuple[Forecast, ...]
    unrecorded: frozenset[tuple[str, float]] = frozenset()

    @property
    def predictions(self) -> dict[Cell, Prediction]:
        """Predictions by cell."""
        return {one.cell: one.prediction for one in self.forecasts if one.prediction is not None}

    @property
    def refusals(self) -> dict[Cell, str]:
        """What the engine said of the cells that it refused."""
        return {one.cell: one.refusal for one in self.forecasts if one.refusal}

    @property
    def picks(self) -> list[Cell]:
        """Cells to measure, in running order."""
        return [one.cell for one in self.forecasts if one.role is Role.PICK]

    @property
    def runners_up(self) -> list[Cell]:
        """Cells to measure if time is left, in running order."""
        return [one.cell for one in self.forecasts if one.role is Role.RUNNER_UP]

    def forecaster(self, backend: Backend, warm_corpus: Sequence[Sequence[int]]) -> Forecaster | None:
        """A forecaster over the measured costs."""
        if self.target_cost is None:
            return None
        costs = {table.family: DraftCost(table) for table in self.draft_costs}
        return Forecaster(backend, TargetCost(self.target_cost), costs, warm_corpus)


def sampling_of(plan: Plan, temperature: float, max_tokens: int, turn: int = 0) -> SamplingParams:
    """Parameters of a pair: seeds take turns."""
    return SamplingParams(
        temperature=temperature,
        max_tokens=max_tokens,
        seed=plan.seeds[turn % len(plan.seeds)],
        ignore_eos=plan.is_past_end,
    )


@dataclass(frozen=True, slots=True)
class SettingForecast:
    """What replays over the texts of one workload and temperature promise, and whom the engine refused."""

    predictions: tuple[tuple[Cell, Prediction], ...]
    refusals: tuple[tuple[Cell, str], ...]


def prepare(
    plan: Plan,
    backend: Backend,
    cells: Sequence[Cell],
    materials: Mapping[str, Material],
    warm_corpus: Sequence[Sequence[int]],
    deadline: Deadline,
    progress: Progress,
    parts: Parts,
) -> Preparation:
    """Settles one target, part by part. Engines without a probe are measured blind, every cell."""
    probe = backend.probe
    if probe is None:
        return Preparation(plan.max_tokens, None, (), tuple(Forecast(cell, None, Role.PICK) for cell in cells))
    progress.stage("timing passes and drafts")
    controls = {name for name, material in materials.items() if material.workload.is_control}
    lengths = sorted(len(backend.prompt_ids(p)) for material in materials.values() for p in material.choose)
    target_cost, draft_costs = _costs(plan, backend, probe, cells, materials, lengths, deadline, parts)
    max_tokens = plan.max_tokens
    if plan.quick:
        turns = [1 + len(prompt.later_turns) for material in materials.values() for prompt in material.choose]
        cost, num_turns = TargetCost(target_cost), sum(turns) / len(turns)
        fitting = partial(fitting_length, plan, cost, cells, lengths, num_turns, QUICK_CHOOSING_PROMPTS, deadline)
        max_tokens = parts.get("output length", int, fitting)
    settled = Preparation(max_tokens, target_cost, draft_costs, ())
    forecaster = settled.forecaster(backend, warm_corpus)
    assert forecaster is not None, "costs were just measured"
    found = _predict(plan, backend, probe, forecaster, cells, materials, max_tokens, progress, deadline, parts)
    predictions = dict(pair for one in found.values() for pair in one.predictions)
    refusals = dict(pair for one in found.values() for pair in one.refusals)
    seen = {cell.setting for cell in predictions}
    willing = [cell for cell in cells if cell not in refusals and (cell.setting in seen or not plan.quick)]
    roles = select(willing, predictions, controls) if plan.quick else dict.fromkeys(willing, Role.PICK)
    forecasts = tuple(
        Forecast(cell, predictions.get(cell), roles.get(cell, Role.PASSED_OVER), refusals.get(cell, ""))
        for cell in cells
    )
    unrecorded = frozenset((cell.workload, cell.temperature) for cell in cells) - found.keys()
    return Preparation(max_tokens, target_cost, draft_costs, forecasts, unrecorded)


def _costs(
    plan: Plan,
    backend: Backend,
    probe: CostProbe,
    cells: Sequence[Cell],
    materials: Mapping[str, Material],
    lengths: Sequence[int],
    deadline: Deadline,
    parts: Parts,
) -> tuple[TargetCostTable, tuple[DraftCostTable, ...]]:
    """C, and D of every family."""
    controls = [name for name, material in materials.items() if material.workload.is_control]
    params = sampling_of(plan, 0.0, PROBE_TOKENS)
    choosing = [prompt for material in materials.values() for prompt in material.choose]
    # A round without a draft has no overhead to speak of, and on the control class drafts are found.
    drafted = materials[min(controls)].choose[0] if controls else choosing[0]
    overhead = parts.get("overhead", float, lambda: measure_overhead(backend, drafted, most_rows(cells), params))
    contexts = _contexts(lengths, plan.max_tokens, probe)
    target, clock = cells[0].target, deadline.clock
    target_cost = parts.get(
        "C", TargetCostTable, lambda: measure_c(probe, target, cells, contexts, overhead, clock=clock)
    )
    sizes = sorted({cell.concurrency for cell in cells})
    # Drafts are timed behind a prompt of middling length.
    text = sorted((backend.prompt_ids(prompt) for prompt in choosing), key=len)[len(choosing) // 2]
    draft_costs = []
    for family, grid in families_of(cells).items():
        points = [(n, size) for n in grid for size in sizes]
        measure = partial(measure_d, probe, target, family, points, params, text, clock=clock)
        draft_costs.append(parts.get(f"D {family.label}", DraftCostTable, measure))
    return target_cost, tuple(draft_costs)


def _contexts(lengths: Sequence[int], max_tokens: int, probe: CostProbe) -> list[int]:
    """A short and a long context among those to come, with room for a pass behind it."""
    short, long = lengths[len(lengths) // 10], lengths[-1 - len(lengths) // 10] + max_tokens
    room = probe.traits.max_context - max(2 * max_tokens, probe.prefill_rows)
    return sorted({max(16, min(short, room)), max(16, min(long, room))})


def _predict(
    plan: Plan,
    backend: Backend,
    probe: CostProbe,
    forecaster: Forecaster,
    cells: Sequence[Cell],
    materials: Mapping[str, Material],
    max_tokens: int,
    progress: Progress,
    deadline: Deadline,
    parts: Parts,
) -> dict[tuple[str, float], SettingForecast]:
    """Records plain texts per workload and temperature, then replays every candidate over them.

    Recording takes at most half of the time that is left: on a busy machine some workloads are left out rather than all
    left unmeasured. Those that are left out are recorded when the run is resumed.
    """
    reserve = deadline.left / 2
    settings = list(dict.fromkeys((cell.workload, cell.temperature) for cell in cells))
    forecasts: dict[tuple[str, float], SettingForecast] = {}

    def forecast(workload: str, temperature: float) -> SettingForecast:
        params = sampling_of(plan, temperature, max_tokens)
        prompts = materials[workload].choose
        recordings = record_texts(backend, probe.traits, prompts, params)
        here = [cell for cell in cells if (cell.workload, cell.temperature) == (workload, temperature)]
        predictions = forecaster.predict(here, recordings, prompts, params)
        refusals = ((cell, why) for cell, why in forecaster.refusals.items() if cell in here)
        return SettingForecast(tuple(predictions.items()), tuple(refusals))

    for number, (workload, temperature) in enumerate(settings):
        part = f"forecast {workload}, T={temperature:g}"
        found = parts.find(part, SettingForecast)
        if found is None and plan.time_budget is not None and deadline.left < reserve:
            continue
        if found is None:
            progress.stage(f"recording plain text and replaying drafts over it: {workload}, T={temperature:g}")
            found = parts.get(part, SettingForecast, partial(forecast, workload, temperature))
        forecasts[workload, temperature] = found
        progress.advance(number + 1, len(settings), None)
    return forecasts
