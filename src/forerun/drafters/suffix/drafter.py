"""Drafts the most frequent continuation of what the text ends with (SuffixDecoding, arXiv 2411.04975)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from forerun.corpus.corpora import Corpora
from forerun.corpus.corpus import Corpus
from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.method import BuildContext
from forerun.drafters.suffix.config import SuffixConfig
from forerun.drafters.suffix.draft_search import DraftSearch
from forerun.drafters.suffix.suffix_tree import SuffixTree
from forerun.types import Borrows, Dependency, Draft, Features, Weights


class SuffixState(DrafterState):
    """Prompt and own output of one request as a suffix tree; ``num_prompt`` of the tokens are the prompt's."""

    def __init__(self, tree: SuffixTree, num_prompt: int, session: str) -> None:
        self.tree = tree
        self.num_prompt = num_prompt
        self.session = session

    @property
    def num_observed(self) -> int:
        return len(self.tree.tokens)

    def fork(self) -> SuffixState:
        return SuffixState(self.tree.copy(), self.num_prompt, self.session)

    def truncate(self, length: int) -> None:
        """Rebuilt from the tokens that stay: cuts are rare, and an undo log would double every token's memory."""
        if length >= self.num_observed:
            return
        kept = self.tree.tokens[:length]
        self.tree = SuffixTree(self.tree.max_depth)
        self.append(kept)

    def export(self) -> dict[str, Any]:
        return {"tokens": self.tree.tokens.copy()}

    def append(self, tokens: Sequence[int]) -> None:
        """More committed tokens."""
        for token in tokens:
            self.tree.append(token)


class SuffixDrafter(Drafter[SuffixState]):
    """Chains or trees by frequency, as long as the match warrants.

    The shared corpus is empty until ``ingest`` is called, the knob ``corpus`` names a file, or ``feeds_corpus`` lets
    finished requests in.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name="suffix",
        dependency=Dependency.NONE,
        borrows=Borrows.NOTHING,
        weights=Weights.NONE,
        summary="follows the most frequent continuation in the request's own text and in a corpus",
        has_trees=True,
        max_num_speculative_tokens=63,
        default_grid=(1, 3, 7, 15),
    )

    def __init__(self, config: SuffixConfig) -> None:
        self.config = config
        self.corpora = Corpora(config, config.max_depth)
        self._search = DraftSearch(config)

    @classmethod
    def build(cls, config: SuffixConfig, context: BuildContext) -> SuffixDrafter:
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

    def begin(self, request: DraftRequest) -> SuffixState:
        return SuffixState(SuffixTree(self.config.max_depth), len(request.prompt), request.session)

    def propose(self, states: Sequence[SuffixState], limits: Sequence[DraftLimit]) -> list[Draft]:
        return [self._propose(state, limit) for state, limit in zip(states, limits, strict=True)]

    def observe(self, state: SuffixState, committed: Sequence[int], features: Features | None) -> None:
        state.append(committed)

    def end(self, state: SuffixState) -> None:
        self.corpora.feed(state.session, state.tree.tokens[state.num_prompt :])

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> SuffixState:
        state = self.begin(request)
        state.append(exported["tokens"])
        return state

    def _propose(self, state: SuffixState, limit: DraftLimit) -> Draft:
        """The best of the request's own text and each part of its corpora; ties go to the earlier of them."""
        tree = state.tree
        best, source = self._search.best(tree, tree.match(), limit, 0.0), "suffix:request"
        for part in self.corpora.parts(state.session):
            if self._search.is_enough(best, limit):
                break
            matches = part.match(tree.tokens, self.config.max_depth - 1)
            found = self._search.best(part, matches, limit, best.score)
            if found.score > best.score:
                best, source = found, "suffix:corpus"
        return best.draft(source) if best.tokens else Draft()
