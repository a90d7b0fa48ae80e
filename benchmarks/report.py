"""What a comparison of one pair of models came to: all that is printed, and what benchmarks/results/ keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from benchmarks.divergence import Divergence
from benchmarks.peers.base import NotRun, Setting
from benchmarks.trial import Ratio, Trial, agreement, throughput_ratio, totals

CALIBRATE, CHOOSE, MEASURE = "calibrate", "choose", "measure"


@dataclass(frozen=True)
class RatioRow:
    """A median with its interval, where six pairs or more gave one."""

    num_pairs: int
    median: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, ratio: Ratio) -> RatioRow:
        """From the pairs."""
        interval = ratio.interval
        if interval is None:
            return cls(ratio.num_pairs, ratio.median)
        return cls(ratio.num_pairs, interval.median, interval.low, interval.high)


@dataclass(frozen=True)
class TuningRow:
    """One way to run a peer's threads, plain, on a few prompts of all workloads beside ``forerun plain``."""

    label: str
    tokens_per_second: float | None
    ratio: RatioRow
    is_chosen: bool


@dataclass(frozen=True)
class SettingRow:
    """One setting on the choosing prompts of one workload, beside ``forerun plain`` (ratios above 1: it is faster)."""

    workload: str
    label: str
    tokens_per_second: float | None
    milliseconds_per_token: float | None
    ratio: RatioRow
    num_drafted: int
    num_accepted: int
    tokens_per_step: float | None
    num_texts: int
    num_same_texts: int
    num_spoiled: int


@dataclass(frozen=True)
class Figure:
    """forerun's setting over a peer's, on prompts that chose neither. ``reach`` is what is aimed at."""

    workload: str
    what: str
    ours: str
    theirs: str
    end_to_end: RatioRow
    decoding: RatioRow
    reach: float | None = None


@dataclass(frozen=True)
class Report:
    """One pair of models on one machine. ``broken`` are forerun's settings whose text was not that of its plain one."""

    pair: str
    command: str
    date: str
    machine: str
    is_quick: bool
    is_complete: bool
    versions: dict[str, str]
    prompts: dict[str, str]
    figures: list[Figure]
    rows: list[SettingRow]
    divergences: list[Divergence]
    not_run: list[NotRun]
    broken: list[str]
    tunings: list[TuningRow] = field(default_factory=list)


_ADAPTER = TypeAdapter(Report)


def write(report: Report, path: Path) -> None:
    """As JSON, for later runs of other pairs to render beside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_ADAPTER.dump_json(report, indent=1) + b"\n")


def read(path: Path) -> Report:
    """What ``write`` wrote."""
    return _ADAPTER.validate_json(path.read_bytes())


def setting_rows(trials: Sequence[Trial], settings: Iterable[Setting], plain: Setting) -> list[SettingRow]:
    """Every setting on every workload, on the choosing prompts."""
    chosen = [trial for trial in trials if trial.stage == CHOOSE]
    rows = []
    for workload in dict.fromkeys(trial.workload for trial in chosen):
        here = [trial for trial in chosen if trial.workload == workload]
        for setting in settings:
            sums, texts = totals(here, setting), agreement(here, setting, plain)
            if sums.num_trials + sums.num_spoiled == 0:
                continue
            per_token = sums.seconds_per_token
            rows.append(
                SettingRow(
                    workload,
                    setting.label,
                    sums.tokens_per_second,
                    per_token and per_token * 1000,
                    RatioRow.of(throughput_ratio(here, setting, plain)),
                    sums.num_drafted,
                    sums.num_accepted,
                    sums.tokens_per_step,
                    texts.num_texts,
                    texts.num_same,
                    sums.num_spoiled,
                )
            )
    return rows
