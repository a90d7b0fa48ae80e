"""Proposes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.method import BuildContext
from forerun.drafters.off.config import OffConfig
from forerun.types import Borrows, Dependency, Draft, Features, Weights


class OffState(DrafterState):
    """How many tokens went by."""

    def __init__(self, num_observed: int = 0) -> None:
        self._num_observed = num_observed

    @property
    def num_observed(self) -> int:
        return self._num_observed

    def fork(self) -> OffState:
        return OffState(self._num_observed)

    def truncate(self, length: int) -> None:
        self._num_observed = min(self._num_observed, length)

    def export(self) -> dict[str, Any]:
        return {"num_observed": self._num_observed}

    def advance(self, num_tokens: int) -> None:
        """Count tokens that were committed."""
        self._num_observed += num_tokens


class OffDrafter(Drafter[OffState]):
    """Plain decoding under the drafter contract."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="off",
        dependency=Dependency.NONE,
        borrows=Borrows.NOTHING,
        weights=Weights.NONE,
        summary="plain decoding, one token a round",
        has_trees=False,
        max_num_speculative_tokens=0,
        default_grid=(0,),
    )

    @classmethod
    def build(cls, config: OffConfig, context: BuildContext) -> OffDrafter:
        """Needs nothing."""
        del config, context
        return cls()

    def begin(self, request: DraftRequest) -> OffState:
        return OffState()

    def propose(self, states: Sequence[OffState], limits: Sequence[DraftLimit]) -> list[Draft]:
        return [Draft() for _ in states]

    def observe(self, state: OffState, committed: Sequence[int], features: Features | None) -> None:
        state.advance(len(committed))

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> OffState:
        return OffState(exported["num_observed"])
