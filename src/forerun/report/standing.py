"""What came of one setting, put together once for the terminal and the page."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

from forerun.report import wording
from forerun.sweep.results import CellResult, CellState, Figures, Setting, TuneResult, WorkloadVerdict


class Outcome(enum.Enum):
    """Who won a setting."""

    PAYS = "drafting pays"
    TIE = "tie"
    OFF = "off is fastest"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Standing:
    """A setting with its verdict and its cells, those of plain decoding left out. Control settings have no verdict."""

    setting: Setting
    verdict: WorkloadVerdict | None
    cells: tuple[CellResult, ...]

    @classmethod
    def of(cls, result: TuneResult, setting: Setting) -> Standing:
        """What a tune says about a setting."""
        verdict = next((verdict for verdict in result.verdicts if verdict.setting == setting), None)
        return cls(
            setting, verdict, tuple(cell for cell in result.in_setting(setting) if not cell.cell.candidate.is_off)
        )

    @cached_property
    def outcome(self) -> Outcome:
        """The verdict in one word. Without a single interval nothing is decided, whatever stays switched on."""
        if not any(cell.interval is not None for cell in self.cells):
            return Outcome.UNDECIDED
        if self.verdict is None:
            return Outcome.UNDECIDED
        if self.verdict.is_tie:
            return Outcome.TIE
        return Outcome.OFF if self.verdict.pick.is_off else Outcome.PAYS

    @cached_property
    def pick(self) -> CellResult | None:
        """The cell to run; ``None`` where plain decoding stays."""
        if self.verdict is None or self.verdict.pick.is_off:
            return None
        return next((cell for cell in self.cells if cell.cell.candidate == self.verdict.pick), None)

    @cached_property
    def best(self) -> CellResult | None:
        """The fastest cell with an interval, ties included."""
        known = [cell for cell in self.cells if cell.interval is not None]
        return max(known, key=lambda cell: cell.interval.median if cell.interval else 0.0, default=None)

    @cached_property
    def off_figures(self) -> Figures | None:
        """Plain decoding as measured beside the pick, or beside the cell with most pairs."""
        if self.pick is not None and self.pick.off_figures is not None:
            return self.pick.off_figures
        known = [cell for cell in self.cells if cell.off_figures is not None]
        return max(known, key=lambda cell: cell.num_pairs).off_figures if known else None

    @cached_property
    def why_undecided(self) -> str:
        """Why there is no interval: too few pairs, or the states that the cells ended in."""
        if any(wording.has_too_few_pairs(cell) for cell in self.cells):
            return "too few pairs"
        states = list(dict.fromkeys(cell.state for cell in self.cells)) or [CellState.NOT_RUN]
        return ", ".join(state.value for state in states)
