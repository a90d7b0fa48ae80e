"""Drafts the most frequent continuation of what the text ends with (SuffixDecoding, arXiv 2411.04975)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.method import BuildContext
from forerun.drafters.suffix.candidate import Candidate, Place, most_frequent_path, most_probable_tree
from forerun.drafters.suffix.config import SuffixConfig
from forerun.drafters.suffix.suffix_tree import SuffixTree
from forerun.types import Borrows, Dependency, Draft, Features, Weights


class SuffixState(DrafterState):
    """Prompt and own output of one request as a suffix tree; ``num_prompt`` of the tokens are the prompt's."""

    def __init__(self, tree: SuffixTree, num_prompt: int) -> None:
        self.tree = tree
        self.num_prompt = num_prompt

    @property
    def num_observed(self) -> int:
        return len(self.tree.tokens)

    def fork(self) -> SuffixState:
        return SuffixState(self.tree.copy(), self.num_prompt)

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

    The shared corpus is empty until ``ingest`` is called or ``feeds_corpus`` lets finished requests in.
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
        self.corpus = SuffixTree(config.max_depth)

    @classmethod
    def build(cls, config: SuffixConfig, context: BuildContext) -> SuffixDrafter:
        """Needs nothing of the target."""
        del context
        return cls(config)

    def ingest(self, sequences: Sequence[Sequence[int]]) -> None:
        """Add finished texts to the shared corpus; beyond its limits the oldest go, and none over them enters."""
        for sequence in sequences:
            if not 0 < len(sequence) <= self.config.max_corpus_tokens or self.config.max_corpus_sequences == 0:
                continue
            while (
                len(self.corpus.tokens) + len(sequence) > self.config.max_corpus_tokens
                or self.corpus.num_sequences >= self.config.max_corpus_sequences
            ):
                self.corpus.evict_oldest()
            for token in sequence:
                self.corpus.append(token)
            self.corpus.finish_sequence()

    def begin(self, request: DraftRequest) -> SuffixState:
        return SuffixState(SuffixTree(self.config.max_depth), len(request.prompt))

    def propose(self, states: Sequence[SuffixState], limits: Sequence[DraftLimit]) -> list[Draft]:
        return [self._propose(state.tree, limit) for state, limit in zip(states, limits, strict=True)]

    def observe(self, state: SuffixState, committed: Sequence[int], features: Features | None) -> None:
        state.append(committed)

    def end(self, state: SuffixState) -> None:
        if self.config.feeds_corpus:
            self.ingest([state.tree.tokens[state.num_prompt :]])

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> SuffixState:
        state = self.begin(request)
        state.append(exported["tokens"])
        return state

    def _propose(self, tree: SuffixTree, limit: DraftLimit) -> Draft:
        own = self._best(self._own_places(tree), limit)
        shared = self._best(self._corpus_places(tree), limit)
        best, source = (own, "suffix:request") if own.score >= shared.score else (shared, "suffix:corpus")
        if not best.tokens:
            return Draft()
        return Draft(best.tokens, best.parents, survival=best.probabilities, source=source)

    def _best(self, places: Sequence[Place], limit: DraftLimit) -> Candidate:
        """The candidate of highest score; places come longest match first, which wins ties."""
        max_tokens = limit.num_rows if limit.is_tree else min(limit.num_tokens, limit.num_rows)
        best = Candidate()
        for place in places:
            budget = min(max_tokens, self.config.budget(place.match_length))
            if budget <= best.score:
                # No token counts for more than 1, and shorter matches allow no more tokens.
                break
            deepest = self.config.max_depth - place.match_length
            if place.highest_score(budget if limit.is_tree else min(budget, deepest)) <= best.score:
                continue
            if limit.is_tree:
                found = most_probable_tree(place, budget, limit.num_tokens, self.config.min_token_prob)
            else:
                found = most_frequent_path(place, budget, self.config.min_token_prob)
            if found.score > best.score:
                best = found
        return best

    @staticmethod
    def _own_places(tree: SuffixTree) -> list[Place]:
        """Matches of the request's end earlier in the request, longest first."""
        places: list[Place] = []
        for match_length in range(1, tree.num_open + 1):
            node = tree.open_node(match_length)
            if not node.children:
                # Nothing ever followed these tokens, nor any longer end of the text.
                break
            places.append(Place(tree, node, node.length, match_length))
        return places[::-1]

    def _corpus_places(self, tree: SuffixTree) -> list[Place]:
        """Matches of the request's end in the corpus, longest first: a shorter one exists where a longer one does."""
        places: list[Place] = []
        for match_length in range(1, min(len(tree.tokens), self.config.max_depth - 1) + 1):
            found = self.corpus.locate(tree.tokens[-match_length:])
            if found is None:
                break
            places.append(Place(self.corpus, *found, match_length))
        return places[::-1]
