"""Where the end of a text occurs."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

State = TypeVar("State")


class Match(NamedTuple, Generic[State]):
    """The newest ``shortest`` to ``longest`` tokens of a text all occur at the same places, which ``state`` names."""

    state: State
    shortest: int
    longest: int
