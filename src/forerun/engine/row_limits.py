"""How many rows a pass takes, so that each of them pays for itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from forerun.engine.costs.pass_costs import PassCosts
from forerun.errors import ForerunError

# Row counts whose tokens per second differ by less than this are the same to a clock.
TOLERANCE = 0.02
# Contexts are told apart by so many tokens.
CONTEXT_STEP = 64
MAX_PASS_SECONDS = 0.5
# Share of drafted tokens that is accepted, as methods that pay for themselves reach it.
DRAFT_ROW_YIELD = 0.5


class RowLimits:
    """Chooses row counts from measured costs: the same costs, the same choices.

    A pass with prefill is to take ``max_pass_seconds`` at most; a draft row is worth ``draft_row_yield`` tokens.
    Raises ``ForerunError`` for numbers that allow no pass.
    """

    def __init__(
        self,
        costs: PassCosts,
        *,
        max_pass_seconds: float = MAX_PASS_SECONDS,
        draft_row_yield: float = DRAFT_ROW_YIELD,
    ) -> None:
        if not max_pass_seconds > 0:
            raise ForerunError("a bound of more than 0 seconds a pass", f"{max_pass_seconds:g}", "raise it")
        if not 0 < draft_row_yield <= 1:
            raise ForerunError("a yield of a draft row above 0 and up to 1 token", f"{draft_row_yield:g}", "correct it")
        self.costs = costs
        self.max_pass_seconds = max_pass_seconds
        self.draft_row_yield = draft_row_yield
        # Asked every round, with few different answers.
        self._draft_rows = lru_cache(maxsize=4096)(self._choose_draft_rows)
        self._prefill_rows = lru_cache(maxsize=4096)(self._choose_prefill_rows)

    def draft_rows(self, num_committed: int, num_sequences: int, num_wanted: int, context: float) -> int:
        """How many of ``num_wanted`` draft rows a pass takes beside ``num_committed`` rows of its sequences.

        The most tokens per second, where every sequence gives one token and every draft row its yield: all of them, or
        as many as end just before a measured cliff. Whether to draft at all is not decided here, so each sequence
        keeps one row.
        """
        return self._draft_rows(num_committed, num_sequences, num_wanted, _coarse(context))

    def _choose_draft_rows(self, num_committed: int, num_sequences: int, num_wanted: int, context: int) -> int:
        fewest = min(num_sequences, num_wanted)
        ends = (rows - num_committed for rows in self.costs.pass_curve.rows)
        choices = sorted({num_wanted, *(rows for rows in ends if fewest <= rows <= num_wanted)})
        rates = [
            (num_sequences + self.draft_row_yield * rows)
            / self.costs.pass_curve.seconds(num_committed + rows, num_sequences, context)
            for rows in choices
        ]
        # Of those that can't be told apart the most: what is drafted there is nearly free.
        return max(_near_best(choices, rates))

    def prefill_rows(self, num_taken: int, num_most: int, context: float) -> int:
        """How many of ``num_most`` rows go to prefill in a pass that decodes with ``num_taken`` rows.

        The most prefill per second of those whose pass keeps the bound behind ``context`` tokens; the fewest where none
        does. Of those that can't be told apart the fewest, since the others wait less.
        """
        return self._prefill_rows(num_taken, num_most, _coarse(context))

    def _choose_prefill_rows(self, num_taken: int, num_most: int, context: int) -> int:
        curve = self.costs.slice_curve
        choices = [rows - num_taken for rows in curve.rows if num_taken < rows <= num_taken + num_most] or [num_most]
        seconds = {rows: curve.seconds(num_taken + rows, 1, context) for rows in choices}
        kept = [rows for rows in choices if seconds[rows] <= self.max_pass_seconds] or choices[:1]
        return min(_near_best(kept, [rows / seconds[rows] for rows in kept]))

    def describe(self, row_budget: int) -> str:
        """What a person should know of it, in one line."""
        wanted = range(1, self.costs.pass_curve.rows[-1])
        cut = sorted({1 + kept for rows in wanted if (kept := self.draft_rows(1, 1, rows, 0)) < rows})
        cliffs = f"drafts cut at {', '.join(map(str, cut))} rows" if cut else "no cliff that cuts a draft"
        return (
            f"prefill {self.prefill_rows(0, row_budget, 0)} rows a pass (at most {self.max_pass_seconds:g} s), {cliffs}"
        )


def _coarse(context: float) -> int:
    return round(context / CONTEXT_STEP) * CONTEXT_STEP


def _near_best(choices: Sequence[int], rates: Sequence[float]) -> list[int]:
    best = max(rates)
    return [choice for choice, rate in zip(choices, rates, strict=True) if rate >= best * (1 - TOLERANCE)]
