"""What a pass and a draft cost, and what drafting must yield to pay for itself.

C(rows, sequences, context) and D(N, sequences) are measured on a small grid. A round of a batch b pays when it yields
more tokens than it costs in plain steps: (C(b(N+1), b, L) + D(N, b) + overhead) / C(b, b, L).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from forerun import ratios
from forerun.engine.costs.interpolation import Estimate, Line, between
from forerun.sweep.results import DraftCostTable, TargetCostTable
from forerun.types import RoundCounts


class TargetCost:
    """C: non-falling in rows, linear between measured points, clamped outside of them."""

    def __init__(self, table: TargetCostTable) -> None:
        if not table.points:
            raise ValueError(f"no pass of {table.target} was measured")
        self.table = table
        rows: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
        for point in table.points:
            rows[point.sequences, point.context].append((point.rows, point.seconds))
        self._lines = {key: Line.through(points) for key, points in rows.items()}
        slices: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for point in table.slices:
            slices[point.context].append((point.rows, point.seconds))
        self._slices = {context: Line.through(points) for context, points in slices.items()}

    @property
    def overhead(self) -> float:
        """Seconds a round takes beside drafting and the pass, over a plain step."""
        return self.table.overhead

    def at(self, rows: float, sequences: float, context: float) -> Estimate:
        """Seconds of a pass of ``rows`` rows in all."""
        by_sequences = []
        for count in sorted({sequences for sequences, _ in self._lines}):
            by_context = [
                (float(length), line.at(rows)) for (size, length), line in self._lines.items() if size == count
            ]
            by_sequences.append((float(count), between(by_context, context)))
        return between(by_sequences, sequences)

    def prefill_seconds(self, num_tokens: int) -> float:
        """Seconds to read a prompt, slice by slice as the engine does."""
        size = self.table.prefill_rows
        return sum(self._slice(min(size, num_tokens - start), start) for start in range(0, num_tokens, size))

    def _slice(self, rows: int, context: int) -> float:
        return between([(float(length), line.at(rows)) for length, line in self._slices.items()], context).seconds


class DraftCost:
    """D: seconds to draft N tokens for each of so many sequences; nothing for N = 0."""

    def __init__(self, table: DraftCostTable) -> None:
        if not table.points:
            raise ValueError(f"no draft of {table.family.label} was measured")
        self.table = table
        sizes: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for point in table.points:
            sizes[point.sequences].append((point.num_speculative_tokens, point.seconds))
        self._lines = {size: Line.through(points) for size, points in sizes.items()}

    def at(self, num_speculative_tokens: float, sequences: float) -> Estimate:
        """Seconds for the whole batch."""
        lines = [(float(size), line.at(num_speculative_tokens)) for size, line in self._lines.items()]
        return between(lines, sequences)

    def start_seconds(self, num_tokens: int) -> float:
        """Seconds that a request's drafter takes with a prompt, once."""
        return self.table.start_per_token * num_tokens


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the cost model expects of a candidate.

    ``break_even_acceptance`` is the per-position acceptance, the same at every position, at which a round just pays;
    ``None`` if not even full acceptance pays. ``verify_steps`` and ``draft_steps``: the pass and the draft of a full
    round in plain steps. ``is_outside`` says that a cost had to be taken from the grid's edge.
    """

    ratio: float
    tokens_per_round: float
    break_even_tokens_per_round: float
    break_even_acceptance: float | None
    verify_steps: float
    draft_steps: float
    is_outside: bool


@dataclass(frozen=True, slots=True)
class CostModel:
    """C of a target and D of one family of candidates."""

    target: TargetCost
    draft: DraftCost

    def break_even_tokens_per_round(self, num_speculative_tokens: int, sequences: int, context: float) -> Estimate:
        """Tokens per round at which drafting N tokens every round is as fast as plain decoding."""
        return self._in_steps(sequences * (num_speculative_tokens + 1), num_speculative_tokens, sequences, context)

    def predict(
        self,
        counts: RoundCounts,
        num_speculative_tokens: int,
        sequences: int,
        context: float,
        *,
        prefill_seconds: float = 0.0,
        start_seconds: float = 0.0,
    ) -> Prediction | None:
        """Expected speed-up from the counts of a replay or a run; ``None`` if it had no round.

        A round costs a pass over the rows it really drafted, the mean over the rounds. ``prefill_seconds`` is what
        both sides spend, over all of the counts' requests, before their first round; ``start_seconds`` what the drafter
        spends besides.
        """
        tokens = ratios.tokens_per_round(counts)
        if tokens is None:
            return None
        full = self.break_even_tokens_per_round(num_speculative_tokens, sequences, context)
        steps, is_outside = self._mean_steps(counts, num_speculative_tokens, sequences, context)
        plain = self.target.at(sequences, sequences, context)
        verify = self.target.at(sequences * (num_speculative_tokens + 1), sequences, context)
        draft = self.draft.at(num_speculative_tokens, sequences)
        prefill = prefill_seconds * sequences / plain.seconds
        start = start_seconds * sequences / plain.seconds
        return Prediction(
            (counts.emitted + prefill) / (counts.rounds * steps + prefill + start),
            tokens,
            full.seconds,
            break_even_acceptance(full.seconds, num_speculative_tokens),
            verify.seconds / plain.seconds,
            draft.seconds / plain.seconds,
            is_outside or full.is_outside,
        )

    def _mean_steps(
        self, counts: RoundCounts, num_speculative_tokens: int, sequences: int, context: float
    ) -> tuple[float, bool]:
        """Cost of the mean round in plain steps: exact per draft length for one chain, by mean rows otherwise."""
        proposed = [position.proposed for position in counts.positions] + [0]
        if sequences > 1 or sum(proposed) != counts.drafted:
            mean_rows = sequences * (1 + counts.drafted / counts.rounds)
            steps = self._in_steps(mean_rows, num_speculative_tokens, sequences, context)
            return steps.seconds, steps.is_outside
        lengths = [counts.rounds_without_draft, *(a - b for a, b in pairwise(proposed))]
        parts = [
            (share, self._in_steps(1 + length, num_speculative_tokens, 1, context))
            for length, share in enumerate(lengths)
            if share
        ]
        total = sum(share * part.seconds for share, part in parts)
        return total / counts.rounds, any(part.is_outside for _, part in parts)

    def _in_steps(self, rows: float, num_speculative_tokens: int, sequences: int, context: float) -> Estimate:
        """A round over ``rows`` rows, in plain decoding steps."""
        plain = self.target.at(sequences, sequences, context)
        verify = self.target.at(rows, sequences, context)
        draft = self.draft.at(num_speculative_tokens, sequences)
        seconds = verify.seconds + draft.seconds + self.target.overhead
        is_outside = plain.is_outside or verify.is_outside or draft.is_outside
        return Estimate(seconds / plain.seconds, is_outside)


def expected_tokens_per_round(acceptance: float, num_speculative_tokens: int) -> float:
    """1 + a + a^2 + ... + a^N: tokens per round if each position is accepted with the same chance."""
    return sum(acceptance**i for i in range(num_speculative_tokens + 1))


def break_even_acceptance(tokens_per_round: float, num_speculative_tokens: int) -> float | None:
    """The per-position acceptance that yields so many tokens per round; ``None`` above N + 1, 0 at 1 or below."""
    if tokens_per_round > num_speculative_tokens + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if expected_tokens_per_round(middle, num_speculative_tokens) < tokens_per_round:
            low = middle
        else:
            high = middle
    return 0.0 if tokens_per_round <= 1 else high
