"""Verdicts in plain language: what to run, and why, from C, D and acceptance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from forerun.sweep.cells import CellState, Setting
from forerun.sweep.results import CellResult, Interval

# A prediction outside the interval and further off than this is mentioned.
SURPRISE: Final = 0.1


def explain_pick(
    setting: Setting,
    pick: CellResult,
    best: CellResult,
    winners: Sequence[CellResult],
    results: Sequence[CellResult],
) -> tuple[str, ...]:
    """Sentences for a winner: how much faster, why, what can't be told from it, what went wrong."""
    assert pick.interval is not None
    assert best.interval is not None
    sentences = [
        f"{pick.cell.candidate.label} makes {setting.workload} {pick.interval.median:.2f} times as fast as plain "
        f"decoding ({_span(pick.interval)})."
    ]
    if why := _economics(pick):
        sentences.append(why)
    if pick is not best:
        sentences.append(
            f"{best.cell.candidate.label} reached {best.interval.median:.2f}, which is no difference at this "
            "precision: the smaller N is enough."
        )
    rivals = {
        result.cell.candidate.family_label: result
        for result in sorted(winners, key=lambda result: _median(result))
        if result.cell.candidate.family != pick.cell.candidate.family and _median(result) >= best.interval.low
    }
    if rivals:
        names = ", ".join(f"{rival.cell.candidate.label} ({_median(rival):.2f})" for rival in rivals.values())
        sentences.append(f"Not to be told from it: {names}.")
    return (*sentences, *_surprise(pick), *_bugs(results))


def explain_off(setting: Setting, results: Sequence[CellResult]) -> tuple[str, ...]:
    """Sentences for plain decoding: nothing measured, nothing told from it, or nothing faster."""
    compared = [result for result in results if result.interval is not None]
    honest = [result for result in compared if not result.has_lossless_failure]
    if not honest:
        return (
            f"Nothing was measured on {setting.workload}: plain decoding stays.",
            *_reasons(results),
            *_bugs(results),
        )
    best = max(honest, key=_median)
    assert best.interval is not None
    label = best.cell.candidate.label
    if best.interval.includes_one:
        first = f"No method can be told from plain decoding on {setting.workload}, so it stays"
    else:
        first = f"Plain decoding is fastest on {setting.workload}"
    subject = label if len(honest) == 1 else f"the best of {len(honest)}, {label},"
    sentences = [f"{first}: {subject} came to {best.interval.median:.2f} ({_span(best.interval)})."]
    if why := _economics(best):
        sentences.append(why)
    return (*sentences, *_surprise(best), *_bugs(results))


def _economics(result: CellResult) -> str:
    """What a round yields against what it costs; empty where costs or counts are unknown."""
    figures, needed = result.figures, result.break_even_tokens_per_round
    tokens = figures.tokens_per_round if figures is not None else None
    if figures is None or needed is None or tokens is None:
        return ""
    verb = "more than" if tokens > needed else "less than"
    text = f"A round yields {tokens:.2f} tokens, {verb} the {needed:.2f} at which drafting every round pays"
    if result.verify_steps is not None and result.draft_steps is not None:
        text += f" (the pass costs {result.verify_steps:.2f} plain steps, the draft {result.draft_steps:.2f})"
    acceptance, coverage = figures.acceptance_rate, figures.coverage
    if acceptance is None or coverage is None:
        return f"{text}; it never had a draft."
    return f"{text}; {coverage:.0%} of rounds had a draft and {acceptance:.0%} of its tokens were accepted."


def _surprise(result: CellResult) -> tuple[str, ...]:
    if result.interval is None or result.predicted_ratio is None:
        return ()
    is_inside = result.interval.low <= result.predicted_ratio <= result.interval.high
    if is_inside or abs(result.interval.median / result.predicted_ratio - 1) <= SURPRISE:
        return ()
    return (f"The cost model expected {result.predicted_ratio:.2f}: C and D do not tell the whole story here.",)


def _bugs(results: Sequence[CellResult]) -> tuple[str, ...]:
    """Candidates that changed a text: said whatever the verdict."""
    return tuple(
        f"{result.cell.candidate.label} changed {len(result.differing_prompts)} text(s): a bug, and it can't win."
        for result in results
        if result.has_lossless_failure
    )


def _reasons(results: Sequence[CellResult]) -> tuple[str, ...]:
    """How the cells without a figure ended, with the most common reason of each state."""
    sentences = []
    for state in CellState:
        reasons = Counter(result.reason for result in results if result.state is state and result.interval is None)
        if reasons:
            reason, _ = reasons.most_common(1)[0]
            sentences.append(f"{reasons.total()} {state.value}: {reason or 'no reason recorded'}.")
    return tuple(sentences)


def _median(result: CellResult) -> float:
    assert result.interval is not None
    return result.interval.median


def _span(interval: Interval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}, {interval.num_pairs} pairs"
