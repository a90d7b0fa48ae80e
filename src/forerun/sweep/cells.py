"""What a sweep visits: candidates, the settings they compete in, cells, and the states a cell can end in."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

Scalar = bool | int | float | str


def short_name(artifact: str) -> str:
    """What to call an artifact on a page: the last part of a path or of a hub id."""
    return artifact.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way of drafting: method, N, chain or tree, knobs as sorted (name, value) pairs, the drafter artifact's id.

    ``off`` is a candidate too: N = 0, no artifact.
    """

    method: str
    num_speculative_tokens: int
    is_tree: bool = False
    knobs: tuple[tuple[str, Scalar], ...] = ()
    drafter: str = ""

    def __post_init__(self) -> None:
        if (self.num_speculative_tokens == 0) != (self.method == "off"):
            raise ValueError(f"N = {self.num_speculative_tokens} with method {self.method!r}")
        if tuple(sorted(self.knobs)) != self.knobs:
            raise ValueError(f"knobs must be sorted by name, found {self.knobs}")

    @property
    def is_off(self) -> bool:
        """Whether this is plain decoding."""
        return self.method == "off"

    @property
    def family(self) -> Candidate | None:
        """The same with N = 1: candidates of one family lie on one N curve. Plain decoding lies on none."""
        if self.is_off:
            return None
        return Candidate(self.method, 1, self.is_tree, self.knobs, self.drafter)

    @property
    def family_label(self) -> str:
        """What to call the N curve: the method, with tree, knobs and drafter where they matter."""
        details = ["tree"] if self.is_tree else []
        details += [f"{name}={value}" for name, value in self.knobs]
        details += [short_name(self.drafter)] if self.drafter else []
        return f"{self.method} ({', '.join(details)})" if details else self.method

    @property
    def label(self) -> str:
        """What a person reads: ``off``, ``ngram N=7``, ``suffix (tree) N=3``."""
        return "off" if self.is_off else f"{self.family_label} N={self.num_speculative_tokens}"


OFF: Final = Candidate("off", 0)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where candidates compete: one verdict is given per setting."""

    target: str
    workload: str
    temperature: float
    concurrency: int

    @property
    def label(self) -> str:
        """``code, T=0, 1 at a time``."""
        return f"{self.workload}, T={self.temperature:g}, {self.concurrency} at a time"


@dataclass(frozen=True, slots=True)
class Cell:
    """One candidate in one setting."""

    target: str
    candidate: Candidate
    workload: str
    temperature: float
    concurrency: int

    @classmethod
    def of(cls, setting: Setting, candidate: Candidate) -> Cell:
        """The cell of a candidate in a setting."""
        return cls(setting.target, candidate, setting.workload, setting.temperature, setting.concurrency)

    @property
    def setting(self) -> Setting:
        """The setting, without the candidate."""
        return Setting(self.target, self.workload, self.temperature, self.concurrency)

    @property
    def label(self) -> str:
        """``ngram N=7 on code, T=0, 1 at a time``."""
        return f"{self.candidate.label} on {self.setting.label}"


class CellState(enum.Enum):
    """How a cell ended. Only ``MEASURED`` has a ratio; nothing else is drawn as 1.0 or 0."""

    MEASURED = "measured"
    TIE = "tie"
    SPOILED = "spoiled"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    UNREACHABLE = "unreachable"
    NOT_RUN = "not run"
