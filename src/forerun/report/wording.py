"""Numbers and states as a person reads them: one place, so that the terminal and the page never disagree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from forerun.sweep.results import CellResult, CellState, Interval

# Stands where a figure does not apply; never 0 or 1.
ABSENT: Final = "–"


def ratio(value: float | None) -> str:
    """A speed-up, such as ``1.62×``."""
    return ABSENT if value is None else f"{value:.2f}×"


def span(interval: Interval) -> str:
    """The ends of an interval and its pairs: ``1.55 to 1.70, 8 pairs``."""
    return f"{interval.low:.2f} to {interval.high:.2f}, {plural(interval.num_pairs, 'pair')}"


def number(value: float | None) -> str:
    """A plain figure with two decimals, such as tokens per round."""
    return ABSENT if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """A share, such as ``46%``; one decimal where rounding would make it look like all or nothing."""
    if value is None:
        return ABSENT
    whole = f"{value:.0%}"
    return f"{value:.1%}" if whole in ("0%", "100%") and value not in (0.0, 1.0) else whole


def rate(tokens_per_second: float | None) -> str:
    """Throughput without its unit: three digits are as much as a benchmark knows."""
    if tokens_per_second is None:
        return ABSENT
    return f"{tokens_per_second:.1f}" if tokens_per_second < 100 else f"{tokens_per_second:,.0f}"


def duration(seconds: float | None) -> str:
    """A time with the unit that suits it."""
    if seconds is None:
        return ABSENT
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{_three_digits(seconds / factor)} {unit}"
    return f"{_three_digits(seconds / 1e-6)} µs"


def milliseconds(seconds: float | None) -> str:
    """A time in milliseconds, without the unit."""
    return ABSENT if seconds is None else _three_digits(seconds * 1000)


def memory(num_bytes: int | None) -> str:
    """A size in binary units."""
    if num_bytes is None:
        return ABSENT
    if num_bytes >= 2**30:
        return f"{num_bytes / 2**30:.2f} GiB"
    return f"{num_bytes / 2**20:.0f} MiB"


def plural(count: int, noun: str) -> str:
    """``1 pair``, ``8 pairs``."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def threads(count: int | str) -> str:
    """``1 thread``, ``2 threads``; a count that is undisclosed stays so."""
    return f"{count} {'thread' if count == 1 else 'threads'}"


def listing(parts: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *rest, last = list(parts) or [""]
    return f"{', '.join(rest)} and {last}" if rest else last


def has_too_few_pairs(result: CellResult) -> bool:
    """Whether pairs were kept but not enough for an interval."""
    return result.interval is None and result.num_pairs > 0


def is_predicted_only(result: CellResult) -> bool:
    """Whether nothing was measured and the cost model alone has a figure."""
    return result.state is CellState.NOT_RUN and result.num_pairs == 0 and result.predicted_ratio is not None


def outcome(result: CellResult) -> str:
    """How a cell ended, by name; only a measured one gets a number."""
    if result.ratio is not None:
        return ratio(result.ratio)
    if has_too_few_pairs(result) and result.state is CellState.NOT_RUN:
        return "too few"
    return "predicted" if is_predicted_only(result) else result.state.value


def ending(result: CellResult) -> str:
    """Why a cell has no interval, in words: its state and reason, then what was predicted."""
    name = "not run" if is_predicted_only(result) else outcome(result)
    reason = result.reason or "no reason recorded"
    known = reason if reason.startswith(name) else f"{name}: {reason}"
    return known if result.predicted_ratio is None else f"{known}; predicted {ratio(result.predicted_ratio)}"


def printable(text: str) -> str:
    """Text from data on one line, without control characters: nothing in a model's id can steer a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def _three_digits(value: float) -> str:
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
