"""Piecewise linear curves through measured times: never falling, never guessing past the last point."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def never_falling(values: Sequence[float]) -> list[float]:
    """The closest non-decreasing sequence in least squares: neighbours that fall are pooled to their mean."""
    pools: list[tuple[float, int]] = []
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (left, left_size), (right, right_size) = pools[-2:]
            size = left_size + right_size
            pools[-2:] = [((left * left_size + right * right_size) / size, size)]
    return [value for value, size in pools for _ in range(size)]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds, and whether the question lay outside what was measured (then the nearest measured edge answers)."""

    seconds: float
    is_outside: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Values at ascending places; between two places linear."""

    places: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def through(cls, points: Iterable[tuple[float, float]]) -> Line:
        """A never-falling line through (place, value) points, one per place."""
        ordered = sorted(points)
        places = tuple(place for place, _ in ordered)
        if not places or len(set(places)) < len(places):
            raise ValueError(f"a line needs distinct places, found {places}")
        return cls(places, tuple(never_falling([value for _, value in ordered])))

    def at(self, place: float) -> Estimate:
        """The value at a place."""
        if place <= self.places[0]:
            return Estimate(self.values[0], place < self.places[0])
        if place >= self.places[-1]:
            return Estimate(self.values[-1], place > self.places[-1])
        right = bisect_right(self.places, place)
        left = right - 1
        weight = (place - self.places[left]) / (self.places[right] - self.places[left])
        return Estimate(self.values[left] + weight * (self.values[right] - self.values[left]))


def between(lines: Sequence[tuple[float, Estimate]], place: float) -> Estimate:
    """Linear between estimates that were made at several places of another axis; the nearest one outside of them."""
    ordered = sorted(lines, key=lambda pair: pair[0])
    places = [where for where, _ in ordered]
    if place <= places[0] or place >= places[-1]:
        where, nearest = ordered[0] if place <= places[0] else ordered[-1]
        return Estimate(nearest.seconds, nearest.is_outside or place != where)
    right = bisect_right(places, place)
    (low, below), (high, above) = ordered[right - 1], ordered[right]
    weight = (place - low) / (high - low)
    uses_outside = below.is_outside or (weight > 0 and above.is_outside)
    return Estimate(below.seconds + weight * (above.seconds - below.seconds), uses_outside)
