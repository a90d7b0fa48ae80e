"""A tune made by hand: every state a cell can end in, a reversal between workloads, losses, ties, a looping output.

The figures are invented but hang together: counts follow from acceptance per position, ratios from throughputs.
"""

from __future__ import annotations

from dataclasses import replace

from forerun.conditions import NO_ARTIFACT, Artifact, Conditions
from forerun.drafters.base import MethodInfo
from forerun.sweep.cells import OFF, Candidate, Cell, CellState, Setting
from forerun.sweep.results import (
    CellResult,
    CostPoint,
    Curve,
    CurvePoint,
    CurveShape,
    DraftCostPoint,
    DraftCostTable,
    Figures,
    Gap,
    Inflation,
    Interval,
    LoopingOutput,
    TargetCostTable,
    TuneResult,
    WorkloadVerdict,
)
from forerun.types import Borrows, Dependency, PositionCounts, RoundCounts, Timings, Weights

TARGET = "Qwen2.5-Coder-1.5B"
DRAFTER = "Qwen2.5-0.5B"
OFF_RATE = 12.5

CONDITIONS = Conditions(
    target=Artifact(TARGET, "main", "sha256:5f0c" + "0" * 28, "bf16"),
    drafter=NO_ARTIFACT,
    engine="forerun 0.1.0",
    commit="0123456789abcdef0123456789abcdef01234567",
    flags=(("block_size", "16"), ("row_tile", "32")),
    context=4096,
    output_length_rule="at most 128 tokens, natural end kept",
    kv_dtype="bf16",
    cache_state="cold",
    prompt_set_hash="sha256:77aa" + "1" * 28,
    prompt_set_size=168,
    harness="forerun tune",
    device="CPU with AMX",
    device_count=1,
    os="Linux 6.1 x86_64",
    torch="2.13.0",
    transformers="5.24.0",
    threads=2,
    started_at="2026-12-01T05:00:00+00:00",
    ended_at="2026-12-01T05:05:48+00:00",
    load=0.21,
)

METHODS = (
    MethodInfo("off", Dependency.NONE, Borrows.NOTHING, Weights.NONE, "plain decoding", False, 0, ()),
    MethodInfo(
        "ngram",
        Dependency.NONE,
        Borrows.NOTHING,
        Weights.NONE,
        "continues the longest earlier match",
        False,
        64,
        (1, 3, 7, 15),
    ),
    MethodInfo(
        "suffix",
        Dependency.NONE,
        Borrows.NOTHING,
        Weights.NONE,
        "suffix tree scored by frequency",
        True,
        64,
        (1, 3, 7, 15),
    ),
    MethodInfo(
        "draft_model",
        Dependency.SEQUENTIAL,
        Borrows.NOTHING,
        Weights.SEPARATE,
        "a second, smaller model",
        True,
        32,
        (1, 2, 3, 4, 5, 6, 7),
    ),
)


def counts(n: int, coverage: float, acceptance: tuple[float, ...], rounds: int = 400) -> RoundCounts:
    """Counts of chains of N tokens whose position i is accepted, given all before, with probability ``acceptance[i]``.

    The last value holds for all later positions.
    """
    with_draft = reached = round(rounds * coverage)
    positions = []
    for i in range(n):
        accepted = round(reached * acceptance[min(i, len(acceptance) - 1)])
        positions.append(PositionCounts(with_draft, reached, accepted))
        reached = accepted
    total = sum(position.accepted for position in positions)
    return RoundCounts(rounds, rounds - with_draft, n * with_draft, total, rounds + total, tuple(positions))


def figures(rate: float, found: RoundCounts, ttft: float, passed: float | None, memory_mib: int) -> Figures:
    """Figures whose inter-token times follow from the rate."""
    return Figures(
        counts=found,
        timings=Timings(0.02 * len(found.positions), 1.0, 0.08, 0.05),
        throughput=rate,
        ttft_p50=ttft,
        ttft_p95=ttft * 1.6,
        inter_token_p50=0.9 / rate,
        inter_token_p95=2.4 / rate,
        pass_rate=passed,
        num_checked=0 if passed is None else 24,
        peak_memory=memory_mib * 2**20,
        repetition=0.11,
    )


def measured(setting: Setting, candidate: Candidate, median: float, low: float, high: float, **more) -> CellResult:
    """A cell with an interval: measured, or a tie where that includes 1."""
    n = candidate.num_speculative_tokens
    num_pairs = more.pop("num_pairs", 8)
    coverage, acceptance = more.pop("coverage", 0.55), more.pop("acceptance", (0.72, 0.66, 0.6, 0.5))
    passed = more.pop("passed", None)
    found = counts(n, coverage, acceptance)
    return CellResult(
        Cell.of(setting, candidate),
        CellState.TIE if low <= 1.0 <= high else CellState.MEASURED,
        interval=Interval(median, low, high, num_pairs, 0.9922),
        num_pairs=num_pairs,
        figures=figures(OFF_RATE * median, found, 0.231, passed, 3412),
        off_figures=figures(OFF_RATE, counts(0, 0.0, (), 900), 0.224, passed, 3290),
        share_slower_prompts=0.0 if low > 1.2 else 0.25,
        worst_prompt_ratio=low * 0.9,
        predicted_ratio=more.pop("predicted", median * 1.04),
        predicted_tokens_per_round=found.emitted / found.rounds,
        break_even_tokens_per_round=1.0 + 0.02 * n,
        break_even_acceptance=0.1 + 0.02 * n,
        verify_steps=1.0 + 0.015 * n,
        draft_steps=0.32 * n if candidate.drafter else 0.001,
        conditions=conditions_of(setting, candidate),
        **more,
    )


def conditions_of(setting: Setting, candidate: Candidate) -> Conditions:
    """The shared conditions with what this cell varies; nobody wrote down the drafter's hash."""
    return replace(
        CONDITIONS,
        drafter=Artifact(candidate.drafter, "main", quantisation="bf16") if candidate.drafter else NO_ARTIFACT,
        method=candidate.method,
        num_speculative_tokens=candidate.num_speculative_tokens,
        sampling=f"temperature {setting.temperature:g}, seed 1",
        concurrency=setting.concurrency,
        task=setting.workload,
    )


def without_interval(setting: Setting, candidate: Candidate, state: CellState, reason: str, **more) -> CellResult:
    """A cell that has no ratio."""
    return CellResult(Cell.of(setting, candidate), state, reason, **more)


def ngram(n: int) -> Candidate:
    return Candidate("ngram", n)


def suffix(n: int) -> Candidate:
    return Candidate("suffix", n)


def draft_model(n: int) -> Candidate:
    return Candidate("draft_model", n, drafter=DRAFTER)


def ordinary_cells() -> list[CellResult]:
    """One at a time, T = 0: code edit likes long drafts, code short ones, prose none."""
    edit, code, maths, prose, chat = (
        Setting(TARGET, name, 0.0, 1) for name in ("code_edit", "code", "maths", "prose", "chat")
    )
    copied = (0.93, 0.93, 0.92, 0.9)
    return [
        measured(edit, ngram(1), 1.31, 1.27, 1.36, acceptance=copied, coverage=0.7, passed=0.75),
        measured(edit, ngram(3), 1.78, 1.70, 1.85, acceptance=copied, coverage=0.7, passed=0.75),
        measured(edit, ngram(7), 2.21, 2.10, 2.33, acceptance=copied, coverage=0.7, passed=0.75),
        measured(edit, ngram(15), 2.24, 2.05, 2.41, acceptance=copied, coverage=0.7, passed=0.75, num_looping_pairs=1),
        measured(edit, suffix(1), 1.33, 1.28, 1.39, acceptance=copied, coverage=0.8, passed=0.75),
        measured(edit, suffix(3), 1.85, 1.79, 1.93, acceptance=copied, coverage=0.8, passed=0.75),
        measured(edit, suffix(7), 2.46, 2.35, 2.58, acceptance=copied, coverage=0.8, passed=0.75, num_pairs=12),
        measured(edit, suffix(15), 2.50, 2.31, 2.66, acceptance=copied, coverage=0.8, passed=0.75),
        measured(edit, draft_model(1), 1.22, 1.17, 1.27, acceptance=copied, coverage=1.0, passed=0.75),
        measured(edit, draft_model(3), 1.49, 1.41, 1.55, acceptance=copied, coverage=1.0, passed=0.75),
        without_interval(edit, draft_model(5), CellState.NOT_RUN, "no time left", predicted_ratio=1.52),
        without_interval(edit, draft_model(7), CellState.NOT_RUN, "no time left", predicted_ratio=1.44),
        measured(code, ngram(1), 1.08, 1.03, 1.12, passed=0.5),
        measured(code, ngram(3), 1.12, 1.06, 1.18, passed=0.5),
        measured(code, ngram(7), 1.02, 0.97, 1.07, passed=0.5, num_pairs=14),
        measured(code, ngram(15), 0.88, 0.83, 0.93, passed=0.5, num_discarded_pairs=2),
        measured(code, suffix(1), 1.06, 1.01, 1.11, passed=0.5),
        measured(code, suffix(3), 1.11, 1.05, 1.16, passed=0.5),
        without_interval(code, suffix(7), CellState.NOT_RUN, "no time left", predicted_ratio=1.05),
        without_interval(code, suffix(15), CellState.NOT_RUN, "no time left", predicted_ratio=0.94),
        measured(code, draft_model(1), 1.19, 1.14, 1.24, acceptance=(0.81, 0.78, 0.74), coverage=1.0, passed=0.5),
        measured(
            code,
            draft_model(3),
            1.38,
            1.31,
            1.44,
            acceptance=(0.81, 0.78, 0.74),
            coverage=1.0,
            passed=0.5,
            num_pairs=10,
        ),
        measured(code, draft_model(5), 1.29, 1.22, 1.35, acceptance=(0.81, 0.78, 0.74), coverage=1.0, passed=0.5),
        measured(code, draft_model(7), 1.10, 1.04, 1.17, acceptance=(0.81, 0.78, 0.74), coverage=1.0, passed=0.5),
        measured(maths, ngram(1), 1.01, 0.97, 1.05, coverage=0.2, acceptance=(0.5, 0.4), num_pairs=30, passed=0.625),
        measured(maths, ngram(3), 0.99, 0.95, 1.03, coverage=0.2, acceptance=(0.5, 0.4), num_pairs=30, passed=0.625),
        without_interval(
            maths,
            ngram(7),
            CellState.SPOILED,
            "other processes took 31% of the machine in 9 of 12 pairs",
            num_discarded_pairs=9,
        ),
        without_interval(maths, ngram(15), CellState.NOT_RUN, "no time left"),
        measured(maths, suffix(1), 1.02, 0.98, 1.06, coverage=0.2, acceptance=(0.5, 0.4), passed=0.625),
        without_interval(
            maths,
            suffix(3),
            CellState.NOT_RUN,
            "too few: 4 pairs that count, an interval needs 6",
            num_pairs=4,
            predicted_ratio=1.01,
        ),
        without_interval(maths, suffix(7), CellState.NOT_RUN, "no time left", predicted_ratio=0.97),
        without_interval(maths, suffix(15), CellState.NOT_RUN, "no time left", predicted_ratio=0.9),
        *(
            without_interval(maths, draft_model(n), CellState.UNREACHABLE, "the drafter's process ended with signal 9")
            for n in (1, 3, 5, 7)
        ),
        measured(prose, ngram(1), 0.94, 0.91, 0.97, coverage=0.15, acceptance=(0.3, 0.2)),
        measured(prose, ngram(3), 0.86, 0.82, 0.9, coverage=0.15, acceptance=(0.3, 0.2)),
        measured(prose, ngram(7), 0.74, 0.7, 0.78, coverage=0.15, acceptance=(0.3, 0.2)),
        measured(prose, ngram(15), 0.55, 0.51, 0.6, coverage=0.15, acceptance=(0.3, 0.2)),
        measured(prose, suffix(1), 0.96, 0.93, 0.99, coverage=0.15, acceptance=(0.3, 0.2)),
        measured(prose, suffix(3), 0.91, 0.87, 0.96, coverage=0.15, acceptance=(0.3, 0.2)),
        without_interval(prose, suffix(7), CellState.NOT_RUN, "no time left", predicted_ratio=0.82),
        without_interval(prose, suffix(15), CellState.NOT_RUN, "no time left", predicted_ratio=0.7),
        measured(prose, draft_model(1), 0.97, 0.94, 0.99, coverage=1.0, acceptance=(0.45, 0.4)),
        measured(prose, draft_model(3), 0.83, 0.79, 0.87, coverage=1.0, acceptance=(0.45, 0.4)),
        *(
            without_interval(prose, draft_model(n), CellState.REFUSED, "the plan skips N > 3 below break-even")
            for n in (5, 7)
        ),
        *(
            without_interval(
                chat, ngram(n), CellState.NOT_RUN, f"too few: {k} pairs that count, an interval needs 6", num_pairs=k
            )
            for n, k in ((1, 5), (3, 3))
        ),
        *(
            without_interval(chat, ngram(n), CellState.UNSUPPORTED, "chat turns are longer than the context")
            for n in (7, 15)
        ),
    ]


def other_cells() -> list[CellResult]:
    """Four at a time, T = 0.8."""
    edit, code = (Setting(TARGET, name, 0.8, 4) for name in ("code_edit", "code"))
    return [
        measured(edit, suffix(3), 1.24, 1.18, 1.31, num_pairs=9),
        measured(edit, suffix(7), 1.21, 1.12, 1.29, num_pairs=9),
        measured(code, suffix(3), 0.93, 0.88, 0.98),
        measured(code, suffix(7), 0.81, 0.77, 0.86),
    ]


def control_cells() -> list[CellResult]:
    """The control class: repeated text, on which retrieval looks splendid."""
    repeat = Setting(TARGET, "repeat", 0.0, 1)
    always = (0.99,)
    return [
        measured(repeat, ngram(7), 4.1, 3.9, 4.35, acceptance=always, coverage=0.95, num_pairs=6),
        measured(repeat, suffix(7), 4.62, 4.41, 4.8, acceptance=always, coverage=0.97, num_pairs=6),
        measured(repeat, draft_model(3), 1.71, 1.6, 1.8, acceptance=always, coverage=1.0, num_pairs=6),
    ]


SHAPES = {
    ("code_edit", 0.0, "ngram"): (CurveShape.PLATEAU, 7),
    ("code_edit", 0.0, "suffix"): (CurveShape.PLATEAU, 7),
    ("code_edit", 0.0, "draft_model"): (CurveShape.PLATEAU, 3),
    ("code", 0.0, "ngram"): (CurveShape.FALLING, 1),
    ("code", 0.0, "suffix"): (CurveShape.FALLING, 1),
    ("code", 0.0, "draft_model"): (CurveShape.FALLING, 3),
    ("maths", 0.0, "ngram"): (CurveShape.TIE, None),
    ("maths", 0.0, "suffix"): (CurveShape.TIE, None),
    ("prose", 0.0, "ngram"): (CurveShape.BELOW_ONE, None),
    ("prose", 0.0, "suffix"): (CurveShape.BELOW_ONE, None),
    ("prose", 0.0, "draft_model"): (CurveShape.BELOW_ONE, None),
    ("code_edit", 0.8, "suffix"): (CurveShape.PLATEAU, 3),
    ("code", 0.8, "suffix"): (CurveShape.BELOW_ONE, None),
}


def curves(cells: list[CellResult]) -> tuple[Curve, ...]:
    """The curves of ``SHAPES`` through the cells' points."""
    found = []
    for (workload, temperature, method), (shape, pick) in SHAPES.items():
        points = [
            point(cell)
            for cell in cells
            if (cell.cell.workload, cell.cell.temperature, cell.cell.candidate.method)
            == (workload, temperature, method)
            and (cell.interval is not None or cell.predicted_ratio is not None)
        ]
        first = next(
            cell.cell
            for cell in cells
            if (cell.cell.workload, cell.cell.temperature, cell.cell.candidate.method)
            == (workload, temperature, method)
        )
        assert first.candidate.family is not None
        found.append(Curve(first.setting, first.candidate.family, tuple(points), shape, pick))
    return tuple(found)


def point(cell: CellResult) -> CurvePoint:
    """A cell's place on its curve."""
    n = cell.cell.candidate.num_speculative_tokens
    if cell.interval is not None:
        return CurvePoint(n, cell.interval.median, cell.interval.low, cell.interval.high)
    assert cell.predicted_ratio is not None
    return CurvePoint(
        n, cell.predicted_ratio, cell.predicted_ratio * 0.95, cell.predicted_ratio * 1.05, is_predicted=True
    )


def verdicts(cells: list[CellResult]) -> tuple[WorkloadVerdict, ...]:
    """One per ordinary setting."""

    def won(workload: str, temperature: float, candidate: Candidate, *sentences: str) -> WorkloadVerdict:
        setting = Setting(TARGET, workload, temperature, 1 if temperature == 0 else 4)
        interval = next(cell.interval for cell in cells if cell.cell == Cell.of(setting, candidate))
        return WorkloadVerdict(setting, candidate, interval, False, sentences)

    def stays(workload: str, temperature: float, *sentences: str, is_tie: bool = False) -> WorkloadVerdict:
        setting = Setting(TARGET, workload, temperature, 1 if temperature == 0 else 4)
        return WorkloadVerdict(setting, OFF, None, is_tie, sentences)

    return (
        won(
            "code_edit",
            0.0,
            suffix(7),
            "suffix N=7 makes code_edit 2.46 times as fast as plain decoding (2.35 to 2.58, 12 pairs).",
            "A round yields 5.05 tokens, more than the 1.14 at which drafting every round pays.",
            "suffix N=15 reached 2.50, which is no difference at this precision: the smaller N is enough.",
        ),
        won(
            "code",
            0.0,
            draft_model(3),
            "draft_model (Qwen2.5-0.5B) N=3 makes code 1.38 times as fast as plain decoding (1.31 to 1.44, 10 pairs).",
            "Later positions are accepted less and the drafter works for each, so N=7 is slower than N=3.",
        ),
        stays(
            "maths",
            0.0,
            "No method can be told from plain decoding on maths, so it stays: the best of 3, suffix N=1, came to "
            "1.02 (0.98 to 1.06, 8 pairs).",
            is_tie=True,
        ),
        stays(
            "prose",
            0.0,
            "Plain decoding is fastest on prose: the best of 8, draft_model (Qwen2.5-0.5B) N=1, came to 0.97 "
            "(0.94 to 0.99, 8 pairs).",
        ),
        stays(
            "chat",
            0.0,
            "Nothing was measured on chat: plain decoding stays.",
            "2 not run: too few: 5 pairs that count, an interval needs 6.",
        ),
        won(
            "code_edit",
            0.8,
            suffix(3),
            "suffix N=3 makes code_edit 1.24 times as fast as plain decoding (1.18 to 1.31, 9 pairs).",
        ),
        stays(
            "code",
            0.8,
            "Plain decoding is fastest on code: the best of 2, suffix N=3, came to 0.93 (0.88 to 0.98, 8 pairs).",
        ),
    )


def tune_example() -> TuneResult:
    """The whole tune."""
    cells = ordinary_cells() + control_cells() + other_cells()
    costs = tuple(
        CostPoint(rows, sequences, context, (0.080 + 0.0007 * rows + 0.004 * (sequences - 1)) * (1 + context / 16384))
        for context in (256, 2048)
        for sequences in (1, 4)
        for rows in (1, 2, 4, 8, 16, 32)
        if rows >= sequences
    )
    return TuneResult(
        run_id="20261201-050000-a1b2",
        plan_hash="9c1f" + "2" * 12,
        plan='{"targets": ["Qwen2.5-Coder-1.5B"], "pairs": [6, 30]}',
        is_quick=True,
        conditions=CONDITIONS,
        cells=tuple(cells),
        curves=curves(cells),
        verdicts=verdicts(cells),
        inflation=(
            Inflation(TARGET, ngram(7), 0.0, 1, 4.10, 1.22, 3, is_predicted=False),
            Inflation(TARGET, suffix(7), 0.0, 1, 4.62, 1.31, 4, is_predicted=True),
            Inflation(TARGET, draft_model(3), 0.0, 1, 1.71, 1.19, 3, is_predicted=False),
        ),
        target_costs=(TargetCostTable(TARGET, costs, 0.0011),),
        draft_costs=(
            DraftCostTable(TARGET, ngram(1), tuple(DraftCostPoint(n, 1, 4e-6 + 1e-7 * n) for n in (1, 3, 7, 15))),
            DraftCostTable(TARGET, suffix(1), tuple(DraftCostPoint(n, 1, 11e-6 + 8e-7 * n) for n in (1, 3, 7, 15))),
            DraftCostTable(TARGET, draft_model(1), tuple(DraftCostPoint(n, 1, 0.027 * n) for n in (1, 3, 5, 7))),
        ),
        gaps=(
            Gap("mtp", CellState.UNSUPPORTED, "the checkpoint has no multi-token prediction head"),
            Gap("draft_model (tree)", CellState.NOT_RUN, "no tree in the plan"),
        ),
        looping=(LoopingOutput(cells[3].cell.setting, "code_edit/017", 0.83, "    x = x + 1\n" * 4),),
        control_workloads=("repeat",),
        num_comparisons=sum(cell.interval is not None for cell in cells),
    )
