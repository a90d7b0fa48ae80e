"""How long the outputs of a quick tune may be, so that it ends in time."""

from __future__ import annotations

from collections.abc import Sequence

from forerun.drafters.registry import find_method
from forerun.sweep.cells import Cell
from forerun.sweep.cost_model import TargetCost
from forerun.sweep.forecast import RECORDING_CONCURRENCY
from forerun.sweep.plan import Plan
from forerun.sweep.progress import Deadline
from forerun.types import Weights

QUICK_MIN_TOKENS = 24
QUICK_MAX_TOKENS = 64
# Share of the time left that pairs may plan with; the rest is for drift, discarded pairs and the report.
QUICK_SHARE = 0.8
# A pair is off plus something at least this much faster, on average.
QUICK_ARMS = 1.75


def fitting_length(
    plan: Plan,
    cost: TargetCost,
    cells: Sequence[Cell],
    lengths: Sequence[int],
    num_turns: float,
    num_choosing: int,
    deadline: Deadline,
) -> int:
    """Output tokens that let one cell of every setting have its pairs in the time that is left.

    ``num_turns`` is the mean of a prompt's turns, ``num_choosing`` how many prompts of a workload are recorded.
    Runners-up are not planned for: they would halve every text, and live on what the reserve leaves.
    """
    if plan.time_budget is None:
        return min(plan.max_tokens, QUICK_MAX_TOKENS)
    mean = sum(lengths) / len(lengths)
    prefill = cost.prefill_seconds(round(mean))
    settings = {cell.setting for cell in cells}
    texts = {(setting.workload, setting.temperature) for setting in settings}
    num_recorded = min(num_choosing, RECORDING_CONCURRENCY)
    # Once plain, and once with each drafter that can't be replayed.
    families = {cell.candidate.family for cell in cells}
    num_serial = sum(f is not None and find_method(f.method).info.weights is not Weights.NONE for f in families)
    num_recordings = len(texts) * (1 + num_serial)
    fixed = num_recordings * num_recorded * prefill
    per_token = num_recordings * cost.at(num_recorded, num_recorded, mean).seconds
    for setting in settings:
        size = setting.concurrency
        # A warm-up and the pairs, two arms each.
        fixed += (plan.min_pairs + 1) * 2 * size * prefill
        per_token += plan.min_pairs * QUICK_ARMS * cost.at(size, size, mean).seconds
    fitting = int((QUICK_SHARE * deadline.left / num_turns - fixed) / per_token)
    return max(min(QUICK_MIN_TOKENS, plan.max_tokens), min(fitting, plan.max_tokens, QUICK_MAX_TOKENS))
