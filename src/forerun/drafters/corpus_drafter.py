"""What retrieval methods share: they draft from a request's own text and from corpora."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from forerun.corpus.config import CorpusConfig
from forerun.corpus.corpora import Corpora
from forerun.corpus.corpus import Corpus
from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest
from forerun.drafters.method import BuildContext
from forerun.types import Draft, Features


class CorpusDrafterState(DrafterState):
    """The text of one request; ``num_prompt`` of its tokens are the prompt's, ``session`` names what else is read."""

    def __init__(self, num_prompt: int, session: str) -> None:
        self.num_prompt = num_prompt
        self.session = session

    @property
    @abstractmethod
    def tokens(self) -> list[int]:
        """The committed tokens."""

    @property
    def num_observed(self) -> int:
        return len(self.tokens)

    @abstractmethod
    def append(self, tokens: Sequence[int]) -> None:
        """More committed tokens."""

    def export(self) -> dict[str, Any]:
        return {"tokens": self.tokens.copy()}


State = TypeVar("State", bound=CorpusDrafterState)


class CorpusDrafter(Drafter[State]):
    """A drafter that needs nothing of the target but, for a corpus file of text, its tokenizer.

    The shared corpus is empty until ``ingest`` is called, the knob ``corpus`` names a file, or ``feeds_corpus`` lets
    finished requests in. ``max_depth``: the longest context that is looked up, in tokens.
    """

    def __init__(self, config: CorpusConfig, max_depth: int) -> None:
        self.corpora = Corpora(config, max_depth)

    @property
    def corpus(self) -> Corpus:
        """What all requests draft from."""
        return self.corpora.shared

    def ingest(self, sequences: Sequence[Sequence[int]]) -> None:
        """Add finished texts to the shared corpus; beyond its limits the oldest go, and none over them enters."""
        self.corpus.ingest(sequences)

    def read_corpus(self, context: BuildContext) -> Self:
        """Begin with the corpus file that the configuration names, if any."""
        self.corpora.read_file(context.tokenizer, context.vocab_size)
        return self

    def propose(self, states: Sequence[State], limits: Sequence[DraftLimit]) -> list[Draft]:
        self.corpora.advance(len(states))
        return [self.propose_one(state, limit) for state, limit in zip(states, limits, strict=True)]

    @abstractmethod
    def propose_one(self, state: State, limit: DraftLimit) -> Draft:
        """The draft of one request."""

    def observe(self, state: State, committed: Sequence[int], features: Features | None) -> None:
        state.append(committed)

    def end(self, state: State) -> None:
        self.corpora.feed(state.session, state.tokens[state.num_prompt :])

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> State:
        state = self.begin(request)
        state.append(exported["tokens"])
        return state
