"""A cell's result from its pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forerun.conditions import Conditions
from forerun.ratios import divide
from forerun.sweep.cells import Cell, CellState
from forerun.sweep.cost_model import Prediction
from forerun.sweep.measurements import Arm, PairResult
from forerun.sweep.results import CellResult, Figures
from forerun.sweep.statistics import MIN_PAIRS, decide, percentile
from forerun.types import RoundCounts, Timings


def summarise(
    cell: Cell,
    pairs: Sequence[PairResult],
    *,
    prediction: Prediction | None = None,
    conditions: Conditions | None = None,
    is_control: bool = False,
) -> CellResult:
    """All figures of a cell. Pairs spoiled by load or with a looping output are counted and left out, whole.

    On the control class a loop is the point: looping pairs stay in.
    """
    clean = [pair for pair in pairs if not pair.is_spoiled]
    kept = [pair for pair in clean if is_control or not pair.has_looping_output]
    state, interval, reason = decide([pair.ratio for pair in kept])
    num_discarded, num_looping = len(pairs) - len(clean), len(clean) - len(kept)
    if interval is None and num_discarded and len(kept) + num_discarded >= MIN_PAIRS:
        state, reason = CellState.SPOILED, f"{reason}; {num_discarded} discarded for machine load"
    elif interval is None and num_looping:
        reason = f"{reason}; {num_looping} looped"
    prompt_ratios = [ratio for pair in kept for ratio in pair.prompt_ratios]
    result = CellResult(
        cell,
        state,
        reason,
        interval,
        num_pairs=len(kept),
        num_discarded_pairs=num_discarded,
        num_looping_pairs=num_looping,
        pair_ratios=tuple((pair.index, pair.ratio) for pair in kept),
        figures=figures([pair.candidate for pair in kept]),
        off_figures=figures([pair.off for pair in kept]),
        share_slower_prompts=divide(sum(ratio < 1.0 for ratio in prompt_ratios), len(prompt_ratios)),
        worst_prompt_ratio=min(prompt_ratios, default=None),
        # A changed text is a bug on a busy machine and in a loop too.
        differing_prompts=tuple(dict.fromkeys(prompt for pair in pairs for prompt in pair.differing_prompts)),
        conditions=conditions,
    )
    return _with(result, prediction)


def not_measured(cell: Cell, state: CellState, reason: str, *, prediction: Prediction | None = None) -> CellResult:
    """A cell that has no pairs, and why; it may have been predicted."""
    return _with(CellResult(cell, state, reason), prediction)


def figures(arms: Sequence[Arm]) -> Figures | None:
    """One side's figures over its arms; ``None`` of nothing."""
    if not arms:
        return None
    outcomes = [outcome for arm in arms for outcome in arm.prompts]
    first_tokens = [outcome.ttft for outcome in outcomes if outcome.ttft is not None]
    gaps = [seconds for outcome in outcomes for seconds in outcome.inter_token_times]
    checked = [outcome.has_passed for outcome in outcomes if outcome.has_passed is not None]
    return Figures(
        counts=sum((arm.counts for arm in arms), RoundCounts()),
        timings=sum((arm.timings for arm in arms), Timings()),
        throughput=sum(arm.num_tokens for arm in arms) / sum(arm.seconds for arm in arms),
        ttft_p50=percentile(first_tokens, 0.5),
        ttft_p95=percentile(first_tokens, 0.95),
        inter_token_p50=percentile(gaps, 0.5),
        inter_token_p95=percentile(gaps, 0.95),
        pass_rate=divide(sum(checked), len(checked)),
        num_checked=len(checked),
        peak_memory=max(arm.peak_memory for arm in arms),
        repetition=sum(outcome.repetition for outcome in outcomes) / len(outcomes),
    )


def _with(result: CellResult, prediction: Prediction | None) -> CellResult:
    if prediction is None:
        return result
    return replace(
        result,
        predicted_ratio=prediction.ratio,
        predicted_tokens_per_round=prediction.tokens_per_round,
        break_even_tokens_per_round=prediction.break_even_tokens_per_round,
        break_even_acceptance=prediction.break_even_acceptance,
        verify_steps=prediction.verify_steps,
        draft_steps=prediction.draft_steps,
    )
