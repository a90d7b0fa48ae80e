"""From a plan to cells: every candidate in every setting, and what can't be offered at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from forerun.drafters.base import MethodInfo
from forerun.drafters.registry import METHODS, check_num_speculative_tokens, find_method
from forerun.errors import ForerunError
from forerun.sweep.cells import Candidate, Cell, CellState, Setting
from forerun.sweep.grid import default_grid
from forerun.sweep.plan import DrafterPlan, MethodPlan, Plan
from forerun.sweep.results import Gap
from forerun.types import Weights


def settings(plan: Plan, target: str, workloads: Sequence[str]) -> list[Setting]:
    """Every workload x temperature x concurrency of a target."""
    return [
        Setting(target, workload, temperature, concurrency)
        for workload in workloads
        for temperature in plan.temperatures
        for concurrency in plan.concurrency
    ]


def expand(
    plan: Plan, workloads: Sequence[str], native_methods: Mapping[str, Sequence[str]] | None = None
) -> tuple[list[Cell], list[Gap]]:
    """Cells in running order (a setting's candidates together), and gaps. ``off`` is the other side of every cell.

    ``native_methods`` says, per target, which methods its own checkpoint carries. Raises ForerunError for unknown
    methods, an N outside a method's limit, a tree from a method without trees, a drafter that no method takes.
    """
    _require_used(plan)
    cells, gaps = [], []
    for target in plan.targets:
        candidates: list[Candidate] = []
        for method in _methods(plan):
            info = find_method(method.name).info
            drafters = _drafters(plan, target, info, (native_methods or {}).get(target, ()))
            if not drafters:
                gaps.append(Gap(f"{info.name} for {target}", CellState.UNSUPPORTED, "no candidate for this target"))
            candidates += [candidate for drafter in drafters for candidate in _candidates(plan, method, info, drafter)]
        distinct = list(dict.fromkeys(candidates))
        cells += [Cell.of(setting, one) for setting in settings(plan, target, workloads) for one in distinct]
    return cells, gaps


def _require_used(plan: Plan) -> None:
    """A drafter that nothing would load is a mistake in the plan."""
    named = {method.name for method in _methods(plan)}
    for drafter in plan.drafters:
        if find_method(drafter.method).info.weights is not Weights.SEPARATE or drafter.method not in named:
            raise ForerunError(
                f"a plan whose methods take {drafter.method} drafters, such as {drafter.artifact}",
                f"methods {', '.join(sorted(named)) or 'none'}",
                "name the method or drop the drafter",
            )


def _methods(plan: Plan) -> tuple[MethodPlan, ...]:
    """The plan's methods, else every one that drafts; ``off`` is no cell of its own."""
    named = plan.methods or tuple(MethodPlan(name=name) for name in METHODS)
    return tuple(method for method in named if find_method(method.name).info.max_num_speculative_tokens > 0)


def _drafters(plan: Plan, target: str, info: MethodInfo, native: Sequence[str]) -> list[DrafterPlan | None]:
    """Artifacts to try: those named for a separate drafter, ``None`` where the method needs none."""
    if info.weights is Weights.SEPARATE:
        return [
            drafter for drafter in plan.drafters if drafter.method == info.name and drafter.target in (None, target)
        ]
    is_offered = info.weights is Weights.NONE or info.name in native
    return [None] if is_offered else []


def _candidates(plan: Plan, method: MethodPlan, info: MethodInfo, drafter: DrafterPlan | None) -> Iterator[Candidate]:
    if method.is_tree and not info.has_trees:
        raise ForerunError("a tree from a method that grows trees", info.name, "drop is_tree or choose another method")
    trained_size = drafter.trained_size if drafter is not None else None
    for n in method.n or plan.n or default_grid(info, trained_size=trained_size):
        check_num_speculative_tokens(info, n)
        knobs = tuple(sorted(method.knobs.items()))
        yield Candidate(info.name, n, method.is_tree, knobs, drafter.artifact if drafter is not None else "")
