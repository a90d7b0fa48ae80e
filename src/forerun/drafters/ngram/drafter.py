"""Proposes what followed the longest earlier match (prompt lookup, as in transformers and vLLM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from forerun.corpus.corpus_part import CorpusPart
from forerun.drafters.base import DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.corpus_drafter import CorpusDrafter, CorpusDrafterState
from forerun.drafters.method import BuildContext
from forerun.drafters.ngram.config import NgramConfig
from forerun.drafters.ngram.ngram_index import NgramIndex
from forerun.types import Borrows, Dependency, Draft, Weights


class NgramState(CorpusDrafterState):
    """The text of one request, indexed; ``num_prompt`` of its tokens are the prompt's."""

    def __init__(self, index: NgramIndex, num_prompt: int, session: str) -> None:
        super().__init__(num_prompt, session)
        self.index = index

    @property
    def tokens(self) -> list[int]:
        return self.index.tokens

    def fork(self) -> NgramState:
        return NgramState(self.index.copy(), self.num_prompt, self.session)

    def truncate(self, length: int) -> None:
        self.index.truncate(length)

    def append(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.index.append(token)


class NgramDrafter(CorpusDrafter[NgramState]):
    """Chains copied from earlier in the same request, or from a corpus where that has a longer match."""

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
        super().__init__(config, config.max_n)

    @classmethod
    def build(cls, config: NgramConfig, context: BuildContext) -> NgramDrafter:
        """Reads the corpus file, if the configuration names one."""
        return cls(config).read_corpus(context)

    def begin(self, request: DraftRequest) -> NgramState:
        return NgramState(NgramIndex(self.config), len(request.prompt), request.session)

    def propose_one(self, state: NgramState, limit: DraftLimit) -> Draft:
        num_tokens = min(limit.num_tokens, limit.num_rows)
        if num_tokens == 0:
            return Draft()
        tokens = state.index.tokens
        longest, start = state.index.match() or (self.config.min_n - 1, 0)
        draft = Draft.chain(tokens[start : start + num_tokens], source="ngram") if start else Draft()
        if longest == self.config.max_n:
            return draft
        # Among equally long matches the request's own text is preferred, then what comes first here.
        for part in self.corpora.parts(state.session, newest_first=self.config.occurrence == "latest"):
            found = self._longest_in(part, tokens)
            if found is not None and found[0] > longest:
                longest = found[0]
                draft = Draft.chain(part.continuation(found[1], num_tokens), source="ngram:corpus")
        return draft

    def _longest_in(self, part: CorpusPart, tokens: Sequence[int]) -> tuple[int, int] | None:
        """Length and last position of the longest match in a corpus part that something follows."""
        for match in part.match(tokens, self.config.max_n):
            if match.longest < self.config.min_n:
                break
            position = part.occurrence(match.state, newest=self.config.occurrence == "latest")
            if part.continuation(position, 1):
                return match.longest, position
        return None
