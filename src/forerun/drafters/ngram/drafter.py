"""Proposes what followed the longest earlier match (prompt lookup, as in transformers and vLLM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from forerun.corpus.corpora import Corpora
from forerun.corpus.corpus import Corpus
from forerun.corpus.corpus_part import CorpusPart
from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.method import BuildContext
from forerun.drafters.ngram.config import NgramConfig
from forerun.drafters.ngram.ngram_index import NgramIndex
from forerun.types import Borrows, Dependency, Draft, Features, Weights


class NgramState(DrafterState):
    """The text of one request, indexed; ``num_prompt`` of its tokens are the prompt's."""

    def __init__(self, index: NgramIndex, num_prompt: int, session: str) -> None:
        self.index = index
        self.num_prompt = num_prompt
        self.session = session

    @property
    def num_observed(self) -> int:
        return len(self.index.tokens)

    def fork(self) -> NgramState:
        return NgramState(self.index.copy(), self.num_prompt, self.session)

    def truncate(self, length: int) -> None:
        self.index.truncate(length)

    def export(self) -> dict[str, Any]:
        return {"tokens": self.index.tokens.copy()}


class NgramDrafter(Drafter[NgramState]):
    """Chains copied from earlier in the same request, or from a corpus where that has a longer match.

    The shared corpus is empty until ``ingest`` is called, the knob ``corpus`` names a file, or ``feeds_corpus`` lets
    finished requests in.
    """

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
        self.corpora = Corpora(config, config.max_n)

    @classmethod
    def build(cls, config: NgramConfig, context: BuildContext) -> NgramDrafter:
        """Needs nothing of the target but, for a corpus file of text, its tokenizer."""
        drafter = cls(config)
        drafter.corpora.read_file(context.tokenizer, context.vocab_size)
        return drafter

    @property
    def corpus(self) -> Corpus:
        """What all requests draft from."""
        return self.corpora.shared

    def ingest(self, sequences: Sequence[Sequence[int]]) -> None:
        """Add finished texts to the shared corpus; beyond its limits the oldest go, and none over them enters."""
        self.corpus.ingest(sequences)

    def begin(self, request: DraftRequest) -> NgramState:
        return NgramState(NgramIndex(self.config), len(request.prompt), request.session)

    def propose(self, states: Sequence[NgramState], limits: Sequence[DraftLimit]) -> list[Draft]:
        return [self._propose(state, limit) for state, limit in zip(states, limits, strict=True)]

    def observe(self, state: NgramState, committed: Sequence[int], features: Features | None) -> None:
        for token in committed:
            state.index.append(token)

    def end(self, state: NgramState) -> None:
        self.corpora.feed(state.session, state.index.tokens[state.num_prompt :])

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> NgramState:
        state = self.begin(request)
        self.observe(state, exported["tokens"], None)
        return state

    def _propose(self, state: NgramState, limit: DraftLimit) -> Draft:
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
