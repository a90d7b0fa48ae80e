"""Results of a sweep, frozen: what reports, maps and policies read. ``serialise.py`` writes and reads them as JSON."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from forerun import ratios
from forerun.conditions import Conditions
from forerun.engine.costs.cost_point import CostPoint
from forerun.sweep.cells import OFF, Candidate, Cell, CellState, Scalar, Setting
from forerun.sweep.measurements import Arm, LoadReading, PairResult, PromptOutcome
from forerun.types import RoundCounts, Timings

__all__ = [
    "OFF",
    "Arm",
    "Candidate",
    "Cell",
    "CellResult",
    "CellState",
    "CostPoint",
    "Curve",
    "CurvePoint",
    "CurveShape",
    "DraftCostPoint",
    "DraftCostTable",
    "Figures",
    "Gap",
    "Inflation",
    "Interval",
    "LoadReading",
    "LoopingOutput",
    "PairResult",
    "PromptOutcome",
    "Scalar",
    "Setting",
    "TargetCostTable",
    "TuneResult",
    "WorkloadVerdict",
]


@dataclass(frozen=True, slots=True)
class Interval:
    """Median of paired ratios with a distribution-free interval; ``confidence`` is what it covers exactly."""

    median: float
    low: float
    high: float
    num_pairs: int
    confidence: float

    def __post_init__(self) -> None:
        if not self.low <= self.median <= self.high:
            raise ValueError(f"median {self.median} outside [{self.low}, {self.high}]")

    @property
    def half_width(self) -> float:
        """Half of the interval's length, relative to the median."""
        return (self.high - self.low) / 2 / self.median

    @property
    def includes_one(self) -> bool:
        """Whether this can't be told from ``off``."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True)
class Figures:
    """One side of a cell (the candidate's or that of ``off``), over its kept pairs. Times in seconds, memory in bytes.

    ``pass_rate`` is ``None`` where no prompt had a checker.
    """

    counts: RoundCounts
    timings: Timings
    throughput: float
    ttft_p50: float | None
    ttft_p95: float | None
    inter_token_p50: float | None
    inter_token_p95: float | None
    pass_rate: float | None
    num_checked: int
    peak_memory: int
    repetition: float

    @property
    def coverage(self) -> float | None:
        """Share of rounds with a draft."""
        return ratios.coverage(self.counts)

    @property
    def tokens_per_round(self) -> float | None:
        """Tokens emitted in rounds over rounds."""
        return ratios.tokens_per_round(self.counts)

    @property
    def mean_accepted_length(self) -> float | None:
        """1 + accepted over rounds with a draft."""
        return ratios.mean_accepted_length(self.counts)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted."""
        return ratios.acceptance_rate(self.counts)

    @property
    def unconditional_acceptance(self) -> list[float | None]:
        """Per position: accepted >= i over proposed >= i."""
        return ratios.unconditional_acceptance(self.counts)

    @property
    def conditional_acceptance(self) -> list[float | None]:
        """Per position: accepted >= i over (proposed >= i and accepted >= i - 1)."""
        return ratios.conditional_acceptance(self.counts)


@dataclass(frozen=True, slots=True)
class CellResult:
    """How a cell ended. ``reason`` says why in one line unless it was measured.

    ``interval`` is there for measured cells and for ties (one that includes 1); ``figures`` and ``off_figures``
    wherever pairs were kept; predictions wherever acceptance, C and D were known: ``verify_steps`` and ``draft_steps``
    are what a full round's pass and draft cost in plain decoding steps. ``num_pairs`` are those that count: discarded
    ones (machine load) and looping ones are counted apart. ``pair_ratios`` are (pair index, ratio) of those that count.
    """

    cell: Cell
    state: CellState
    reason: str = ""
    interval: Interval | None = None
    num_pairs: int = 0
    num_discarded_pairs: int = 0
    num_looping_pairs: int = 0
    pair_ratios: tuple[tuple[int, float], ...] = ()
    figures: Figures | None = None
    off_figures: Figures | None = None
    share_slower_prompts: float | None = None
    worst_prompt_ratio: float | None = None
    differing_prompts: tuple[str, ...] = ()
    predicted_ratio: float | None = None
    predicted_tokens_per_round: float | None = None
    break_even_tokens_per_round: float | None = None
    break_even_acceptance: float | None = None
    verify_steps: float | None = None
    draft_steps: float | None = None
    conditions: Conditions | None = None

    def __post_init__(self) -> None:
        has_interval = self.interval is not None
        if has_interval != (self.state in (CellState.MEASURED, CellState.TIE)):
            raise ValueError(f"a cell that is {self.state.value} {'has' if has_interval else 'lacks'} an interval")
        if self.interval is not None and self.interval.includes_one != (self.state is CellState.TIE):
            raise ValueError(f"[{self.interval.low}, {self.interval.high}] called {self.state.value}")

    @property
    def ratio(self) -> float | None:
        """Median speed-up over ``off``; only a measured cell has one."""
        return self.interval.median if self.interval is not None and self.state is CellState.MEASURED else None

    @property
    def has_lossless_failure(self) -> bool:
        """Whether drafting changed a text: a bug, whatever the speed."""
        return bool(self.differing_prompts)


@dataclass(frozen=True, slots=True)
class TargetCostTable:
    """C as measured for one target; ``overhead`` is what a round takes beside drafting and the pass.

    ``slices`` are passes that read a prompt: logits of the last row alone. The engine's have ``prefill_rows`` rows.
    """

    target: str
    points: tuple[CostPoint, ...]
    overhead: float
    slices: tuple[CostPoint, ...] = ()
    prefill_rows: int = 0


@dataclass(frozen=True, slots=True)
class DraftCostPoint:
    """Median seconds to draft N tokens for each of ``sequences`` sequences."""

    num_speculative_tokens: int
    sequences: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DraftCostTable:
    """D as measured for one family of candidates (those that differ in N alone).

    ``start_per_token``: seconds a request's drafter takes, per token of the prompt, before its first draft.
    """

    target: str
    family: Candidate
    points: tuple[DraftCostPoint, ...]
    start_per_token: float = 0.0


class CurveShape(enum.Enum):
    """What the speed-up does as N grows."""

    RISING = "rising"
    PLATEAU = "plateau"
    FALLING = "falling"
    BELOW_ONE = "below 1 everywhere"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Speed-up at one N: measured, with its interval, or predicted, with the model's tolerance.

    ``pair_ratios`` are (pair index, ratio): points of one curve ran the same prompts in pairs of the same index.
    """

    num_speculative_tokens: int
    ratio: float
    low: float
    high: float
    is_predicted: bool = False
    pair_ratios: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    """Speed-up over N of one family in one setting, ascending in N.

    ``pick`` is the smallest N on the plateau; ``None`` where no N beats ``off``.
    """

    setting: Setting
    family: Candidate
    points: tuple[CurvePoint, ...]
    shape: CurveShape
    pick: int | None


@dataclass(frozen=True, slots=True)
class WorkloadVerdict:
    """What to run in one setting. ``interval`` is that of the pick; ``None`` when the pick is ``off``.

    ``is_tie``: nothing could be told from ``off``. ``sentences`` are plain language: the pick, then why.
    """

    setting: Setting
    pick: Candidate
    interval: Interval | None
    is_tie: bool
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inflation:
    """How much the control class flatters a method: its ratio on ``repeat`` over that on ordinary workloads.

    The same candidate on both sides; ``ordinary_ratio`` is the geometric mean over ``num_workloads`` ordinary ones.
    """

    target: str
    candidate: Candidate
    temperature: float
    concurrency: int
    repeat_ratio: float
    ordinary_ratio: float
    num_workloads: int
    is_predicted: bool

    @property
    def factor(self) -> float:
        """ratio(repeat) / ratio(ordinary)."""
        return self.repeat_ratio / self.ordinary_ratio


@dataclass(frozen=True, slots=True)
class Gap:
    """Something the sweep could not offer at all, such as a method without a drafter for this target."""

    what: str
    state: CellState
    reason: str


@dataclass(frozen=True, slots=True)
class LoopingOutput:
    """An output that repeats itself without end: kept and shown, in no verdict."""

    setting: Setting
    prompt_id: str
    repetition: float
    excerpt: str


@dataclass(frozen=True, slots=True)
class TuneResult:
    """A whole tune. ``plan`` is its JSON; ``conditions`` are those that all cells share.

    ``num_unfinished``: picks without their least number of pairs and settings without a text, for lack of time.
    """

    run_id: str
    plan_hash: str
    plan: str
    is_quick: bool
    conditions: Conditions
    cells: tuple[CellResult, ...]
    curves: tuple[Curve, ...]
    verdicts: tuple[WorkloadVerdict, ...]
    inflation: tuple[Inflation, ...]
    target_costs: tuple[TargetCostTable, ...]
    draft_costs: tuple[DraftCostTable, ...]
    gaps: tuple[Gap, ...]
    looping: tuple[LoopingOutput, ...]
    control_workloads: tuple[str, ...]
    num_comparisons: int
    num_unfinished: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether everything that was to be measured had its time; if not, the run may go on."""
        return self.num_unfinished == 0

    @property
    def settings(self) -> list[Setting]:
        """Every setting, in the order of the cells."""
        return list(dict.fromkeys(result.cell.setting for result in self.cells))

    @property
    def ordinary_settings(self) -> list[Setting]:
        """Settings that enter a verdict: those of the control class don't."""
        return [setting for setting in self.settings if setting.workload not in self.control_workloads]

    def in_setting(self, setting: Setting) -> list[CellResult]:
        """All cells of one setting."""
        return [result for result in self.cells if result.cell.setting == setting]

    def find(self, cell: Cell) -> CellResult | None:
        """The result of a cell, if it was planned."""
        return next((result for result in self.cells if result.cell == cell), None)

    @property
    def num_pairs(self) -> int:
        """Pairs that count, over all cells."""
        return sum(result.num_pairs for result in self.cells)

    @property
    def num_discarded_pairs(self) -> int:
        """Pairs discarded for machine load, over all cells."""
        return sum(result.num_discarded_pairs for result in self.cells)
