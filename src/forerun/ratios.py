"""The one place where ratios are computed from raw counts. A ratio over nothing is ``None``, never 0 or 1."""

from __future__ import annotations

from forerun.types import RoundCounts


def divide(numerator: float, denominator: float) -> float | None:
    """The quotient, or ``None`` over an empty denominator."""
    return numerator / denominator if denominator else None


def coverage(counts: RoundCounts) -> float | None:
    """Share of rounds with a draft."""
    return divide(counts.rounds - counts.rounds_without_draft, counts.rounds)


def tokens_per_round(counts: RoundCounts) -> float | None:
    """Tokens given out in rounds, after stop and length cuts, over rounds."""
    return divide(counts.emitted, counts.rounds)


def mean_accepted_length(counts: RoundCounts) -> float | None:
    """1 + accepted over rounds with a draft: the figure that the field reports."""
    accepted = divide(counts.accepted, counts.rounds - counts.rounds_without_draft)
    return None if accepted is None else 1.0 + accepted


def acceptance_rate(counts: RoundCounts) -> float | None:
    """Accepted over drafted tokens."""
    return divide(counts.accepted, counts.drafted)


def unconditional_acceptance(counts: RoundCounts) -> list[float | None]:
    """Per position i: rounds that accepted at least i tokens over rounds that proposed at least i."""
    return [divide(position.accepted, position.proposed) for position in counts.positions]


def conditional_acceptance(counts: RoundCounts) -> list[float | None]:
    """Per position i: rounds that accepted at least i tokens over those that proposed i and accepted i - 1."""
    return [divide(position.accepted, position.reached) for position in counts.positions]
