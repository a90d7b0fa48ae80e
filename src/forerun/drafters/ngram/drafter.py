"""Proposes what followed the longest earlier match (prompt lookup, as in transformers and vLLM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.method import BuildContext
from forerun.drafters.ngram.config import NgramConfig
from forerun.drafters.ngram.ngram_index import NgramIndex
from forerun.types import Borrows, Dependency, Draft, Features, Weights


class NgramState(DrafterState):
    """The text of one request, indexed."""

    def __init__(self, index: NgramIndex) -> None:
        self.index = index

    @property
    def num_observed(self) -> int:
        return len(self.index.tokens)

    def fork(self) -> NgramState:
        return NgramState(self.index.copy())

    def truncate(self, length: int) -> None:
        self.index.truncate(length)

    def export(self) -> dict[str, Any]:
        return {"tokens": self.index.tokens.copy()}


class NgramDrafter(Drafter[NgramState]):
    """Chains copied from earlier in the same request."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="ngram",
        dependency=Dependency.NONE,
        borrows=Borrows.NOTHING,
        weights=Weights.NONE,
        summary="copies what followed the longest earlier match of the text's end",
        has_trees=False,
        max_num_speculative_tokens=63,
        default_grid=(1, 3, 7, 15),
    )

    def __init__(self, config: NgramConfig) -> None:
        self.config = config

    @classmethod
    def build(cls, config: NgramConfig, context: BuildContext) -> NgramDrafter:
        """Needs nothing of the target."""
        del context
        return cls(config)

    def begin(self, request: DraftRequest) -> NgramState:
        return NgramState(NgramIndex(self.config))

    def propose(self, states: Sequence[NgramState], limits: Sequence[DraftLimit]) -> list[Draft]:
        return [self._propose(state.index, limit) for state, limit in zip(states, limits, strict=True)]

    def observe(self, state: NgramState, committed: Sequence[int], features: Features | None) -> None:
        for token in committed:
            state.index.append(token)

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> NgramState:
        state = self.begin(request)
        self.observe(state, exported["tokens"], None)
        return state

    def _propose(self, index: NgramIndex, limit: DraftLimit) -> Draft:
        start = index.continuation()
        num_tokens = min(limit.num_tokens, limit.num_rows)
        if start is None or num_tokens == 0:
            return Draft()
        return Draft.chain(index.tokens[start : start + num_tokens], source="ngram")
