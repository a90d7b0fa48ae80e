"""Everything a sweep settles for a target before the first pair: output length, C and D, forecasts, what to measure.

It is one value, kept as a note of the run: a resumed run measures what the first one decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forerun.backends.base import Backend, CostProbe
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import Candidate, Cell, Setting
from forerun.sweep.cost_model import DraftCost, Prediction, TargetCost
from forerun.sweep.costs import measure_c, measure_d, measure_overhead
from forerun.sweep.forecast import Forecaster, prefill_seconds, record_texts
from forerun.sweep.plan import Plan
from forerun.sweep.progress import Deadline, Progress
from forerun.sweep.results import DraftCostTable, TargetCostTable
from forerun.workloads.prompt import Prompt
from forerun.workloads.prompt_set import split
from forerun.workloads.workload import Workload

QUICK_CHOOSING_PROMPTS = 4
QUICK_MIN_TOKENS = 24
QUICK_MAX_TOKENS = 64
# Share of the time left that pairs may plan with; the rest is for drift, discarded pairs and the report.
QUICK_SHARE = 0.8
# A pair is off plus something at least this much faster, on average.
QUICK_ARMS = 1.75
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
    """A cell and what is expected of it; ``None`` where the engine can't be looked into or never drafted."""

    cell: Cell
    prediction: Prediction | None
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Preparation:
    """What was settled for one target. Without a probe there are no costs and no predictions."""

    max_tokens: int
    target_cost: TargetCostTable | None
    draft_costs: tuple[DraftCostTable, ...]
    forecasts: tuple[Forecast, ...]

    @property
    def predictions(self) -> dict[Cell, Prediction]:
        """Predictions by cell."""
        return {one.cell: one.prediction for one in self.forecasts if one.prediction is not None}

    @property
    def selected(self) -> list[Cell]:
        """Cells to measure, in running order."""
        return [one.cell for one in self.forecasts if one.is_selected]

    def forecaster(self, backend: Backend, warm_corpus: Sequence[Sequence[int]]) -> Forecaster | None:
        """A forecaster over the measured costs."""
        if self.target_cost is None:
            return None
        costs = {table.family: DraftCost(table) for table in self.draft_costs}
        return Forecaster(backend, TargetCost(self.target_cost), costs, warm_corpus)


def sampling_of(plan: Plan, temperature: float, max_tokens: int, pair: int = 0) -> SamplingParams:
    """Parameters of a pair: seeds take turns."""
    return SamplingParams(
        temperature=temperature,
        max_tokens=max_tokens,
        seed=plan.seeds[pair % len(plan.seeds)],
        ignore_eos=plan.is_past_end,
    )


def prepare(
    plan: Plan,
    backend: Backend,
    cells: Sequence[Cell],
    materials: Mapping[str, Material],
    warm_corpus: Sequence[Sequence[int]],
    deadline: Deadline,
    progress: Progress,
) -> Preparation:
    """Settles one target. Engines without a probe are measured blind, every cell."""
    probe = backend.probe
    if probe is None:
        return Preparation(plan.max_tokens, None, (), tuple(Forecast(cell, None, True) for cell in cells))
    progress.stage("timing passes and drafts")
    first = next(iter(materials.values())).choose[0]
    params = sampling_of(plan, 0.0, PROBE_TOKENS)
    overhead = measure_overhead(backend, first, cells[0].candidate, params)
    lengths = sorted(len(backend.prompt_ids(p)) for material in materials.values() for p in material.choose)
    contexts = _contexts(lengths, plan.max_tokens, probe.traits.max_context)
    target_cost = measure_c(probe, cells[0].target, cells, contexts, overhead)
    draft_costs = tuple(measure_d(probe, cells[0].target, cells, params, backend.prompt_ids(first)))
    max_tokens = plan.max_tokens
    if plan.quick:
        max_tokens = _fitting_length(plan, TargetCost(target_cost), cells, lengths, deadline)
    settled = Preparation(max_tokens, target_cost, draft_costs, ())
    forecaster = settled.forecaster(backend, warm_corpus)
    assert forecaster is not None, "costs were just measured"
    predictions = _predict(plan, backend, probe, forecaster, cells, materials, max_tokens, progress)
    controls = {name for name, material in materials.items() if material.workload.is_control}
    selected = _select(cells, predictions, controls) if plan.quick else set(cells)
    forecasts = tuple(Forecast(cell, predictions.get(cell), cell in selected) for cell in cells)
    return Preparation(max_tokens, target_cost, draft_costs, forecasts)


def _contexts(lengths: Sequence[int], max_tokens: int, max_context: int) -> list[int]:
    """A short and a long context among those to come."""
    short, long = lengths[len(lengths) // 10], lengths[-1 - len(lengths) // 10] + max_tokens
    room = max_context - 2 * max_tokens
    return sorted({max(16, min(short, room)), max(16, min(long, room))})


def _fitting_length(
    plan: Plan, cost: TargetCost, cells: Sequence[Cell], lengths: Sequence[int], deadline: Deadline
) -> int:
    """Output tokens that let every setting have its pairs in the time that is left."""
    if plan.time_budget is None:
        return min(plan.max_tokens, QUICK_MAX_TOKENS)
    num_settings = len({cell.setting for cell in cells})
    mean = sum(lengths) / len(lengths)
    prefill = prefill_seconds(cost, round(mean))
    step = cost.at(1, 1, mean).seconds
    recording = num_settings * QUICK_CHOOSING_PROMPTS * prefill
    per_pair = QUICK_SHARE * (deadline.left - recording) / (num_settings * plan.min_pairs)
    fitting = int((per_pair - 2 * prefill) / (QUICK_ARMS * step))
    return max(min(QUICK_MIN_TOKENS, plan.max_tokens), min(fitting, plan.max_tokens, QUICK_MAX_TOKENS))


def _predict(
    plan: Plan,
    backend: Backend,
    probe: CostProbe,
    forecaster: Forecaster,
    cells: Sequence[Cell],
    materials: Mapping[str, Material],
    max_tokens: int,
    progress: Progress,
) -> dict[Cell, Prediction]:
    """Records plain texts per workload and temperature, then replays every candidate over them."""
    settings = list(dict.fromkeys((cell.workload, cell.temperature) for cell in cells))
    predictions: dict[Cell, Prediction] = {}
    for number, (workload, temperature) in enumerate(settings):
        progress.stage(f"recording plain text and replaying drafts over it: {workload}, T={temperature:g}")
        params = sampling_of(plan, temperature, max_tokens)
        prompts = materials[workload].choose
        recordings = record_texts(backend, probe.traits, prompts, params)
        here = [cell for cell in cells if (cell.workload, cell.temperature) == (workload, temperature)]
        predictions |= forecaster.predict(here, recordings, prompts, params)
        progress.advance(number + 1, len(settings), None)
    return predictions


def _select(cells: Sequence[Cell], predictions: Mapping[Cell, Prediction], controls: set[str]) -> set[Cell]:
    """The most promising cell of each ordinary setting; on the control, what was selected most often elsewhere."""
    by_setting: dict[Setting, list[Cell]] = {}
    for cell in cells:
        by_setting.setdefault(cell.setting, []).append(cell)
    selected: set[Cell] = set()
    for setting, members in by_setting.items():
        if setting.workload not in controls:
            selected.add(max(members, key=lambda cell: _rank(cell, predictions)))
    common: Counter[Candidate] = Counter(cell.candidate for cell in selected)
    for setting, members in by_setting.items():
        if setting.workload in controls:
            selected.add(max(members, key=lambda cell: (common[cell.candidate], *_rank(cell, predictions))))
    return selected


def _rank(cell: Cell, predictions: Mapping[Cell, Prediction]) -> tuple[float, int]:
    """Higher is more promising; of two that promise the same the smaller N. No prediction promises nothing."""
    prediction = predictions.get(cell)
    ratio = round(prediction.ratio, 3) if prediction is not None else 0.0
    return ratio, -cell.candidate.num_speculative_tokens
