"""What a drafter is. A new method is one folder beside this file and one line in ``registry.py``.

A drafter proposes; it decides nothing. It never touches the scheduler or the pool, and no rule can be biased by it:
the target's text is fixed by the keyed sampler (docs/contract.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor

from forerun.models.base import Target
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.types import Borrows, Dependency, Draft, Features, Tap, Weights


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """How a method is built: these fields drive the expected shape of D(N), the default grid of N and the tables."""

    name: str
    dependency: Dependency
    borrows: Borrows
    weights: Weights
    summary: str
    has_trees: bool
    max_num_speculative_tokens: int
    default_grid: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DraftLimit:
    """What one request may be offered this round.

    ``num_tokens`` is N, the longest path (depth); ``num_rows`` bounds the tokens of a tree in all (a chain: the same
    as ``num_tokens``); ``is_tree`` asks for branches.
    """

    num_tokens: int
    num_rows: int
    is_tree: bool = False


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What a drafter learns of a request when it begins: its id, its prompt and its keyed sampler.

    ``session`` names a corpus that must not be shared across keys; empty means none.
    """

    id: int
    prompt: tuple[int, ...]
    sampler: KeyedSampler
    session: str = ""


@dataclass(frozen=True, slots=True)
class TargetView:
    """Read-only access to a target: its traits, embedding and head. Keyed scores come with the request's sampler."""

    target: Target

    def embed(self, tokens: Tensor) -> Tensor:
        """The target's input embeddings, [n, hidden]."""
        return self.target.embed(tokens)

    def head(self, hidden: Tensor) -> Tensor:
        """The target's fp32 logits of states after its final norm, [n, vocabulary]."""
        return self.target.head(hidden)


class DrafterState(ABC):
    """What a drafter remembers of one request: a value that can be copied, cut, saved and loaded."""

    @property
    @abstractmethod
    def num_observed(self) -> int:
        """Committed tokens seen so far, prompt included."""

    @abstractmethod
    def fork(self) -> DrafterState:
        """An independent copy; neither side sees what the other observes later."""

    @abstractmethod
    def truncate(self, length: int) -> None:
        """Forget every committed token from position ``length`` on."""

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """The state in plain values (numbers, strings, lists, tensors), enough for ``Drafter.restore``."""


State = TypeVar("State", bound=DrafterState)


class Drafter(ABC, Generic[State]):
    """Proposes tokens for a batch of requests."""

    info: ClassVar[MethodInfo]

    @property
    def taps(self) -> frozenset[Tap]:
        """Target states that ``observe`` wants."""
        return frozenset()

    @abstractmethod
    def begin(self, request: DraftRequest) -> State:
        """A fresh state for a request. Nothing is observed yet: the prompt comes through ``observe``."""

    @abstractmethod
    def propose(self, states: Sequence[State], limits: Sequence[DraftLimit]) -> list[Draft]:
        """One draft per state, in order, none over its limit; an empty draft is always allowed."""

    @abstractmethod
    def observe(self, state: State, committed: Sequence[int], features: Features | None) -> None:
        """Committed tokens in order (prompt chunks, then each round's) with their tapped states, if any were asked."""

    def end(self, state: State) -> None:
        """The request is over or cancelled: give back what it held, feed shared corpora."""

    @abstractmethod
    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> State:
        """The state that ``export`` described."""
