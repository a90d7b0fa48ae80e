"""One way to run the engine, and the covering array of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from same_bytes.drafts import Drafts
from same_bytes.numbers import POOLS, Numbers
from support.pairwise import pairwise
from support.serving import Arrival, Serving

WHOLE = 8192  # rows: every prompt in one slice


@dataclass(frozen=True)
class Setting:
    """What varies. ``row_budget`` bounds the rows of a pass, and with them the slices that prompts are read in."""

    drafts: Drafts
    numbers: Numbers
    n: int
    batch: int
    row_budget: int
    threads: int
    arrival: Arrival
    temperature: float
    hits_prefixes: bool
    is_interrupted: bool

    @property
    def serving(self) -> Serving:
        """How the requests come."""
        return Serving(self.batch, self.arrival, self.is_interrupted)

    @property
    def label(self) -> str:
        """One line for a person."""
        parts = [
            self.drafts.value if self.drafts is Drafts.OFF else f"{self.drafts.value} N={self.n}",
            self.numbers.label,
            f"T={self.temperature:g}",
            f"batch {self.batch} {self.arrival.value}",
            f"rows {self.row_budget}",
            f"threads {self.threads}",
            "hits" if self.hits_prefixes else "cold",
        ]
        return ", ".join(parts + ["resumed"] * self.is_interrupted)


def reference(numbers: Numbers, temperature: float) -> Setting:
    """Plain decoding: nothing drafted, one at a time, one thread, nothing shared, every prompt in one slice."""
    return Setting(Drafts.OFF, numbers, 0, 1, WHOLE, 1, Arrival.TOGETHER, temperature, False, False)


def axes(weights: Sequence[str], pools: Sequence[str] = POOLS) -> dict[str, Sequence[Any]]:
    """The values that vary: every field of ``Setting``, its numbers as weights and pool."""
    return {
        "drafts": list(Drafts),
        "weights": weights,
        "n": [1, 3, 7, 15],
        "batch": [1, 2, 8, 16],
        "row_budget": [8, 64, 256, WHOLE],
        "threads": [1, 2, 3, 4],
        "arrival": list(Arrival),
        "temperature": [0.0, 0.8],
        "hits_prefixes": [False, True],
        "is_interrupted": [False, True],
        "kv": pools,
    }


def settings(weights: Sequence[str], pools: Sequence[str] = POOLS) -> list[Setting]:
    """A sample in which every two values meet."""
    return [_setting(**row) for row in pairwise(axes(weights, pools))]


def _setting(weights: str, kv: str, **others: Any) -> Setting:
    return Setting(numbers=Numbers.of(weights, kv), **others)
