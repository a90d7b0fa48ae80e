"""Drafts the most frequent continuation of what the text ends with (SuffixDecoding, arXiv 2411.04975)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from forerun.drafters.base import DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.corpus_drafter import CorpusDrafter, CorpusDrafterState
from forerun.drafters.method import BuildContext
from forerun.drafters.suffix.config import SuffixConfig
from forerun.drafters.suffix.draft_search import DraftSearch
from forerun.drafters.suffix.suffix_tree import SuffixTree
from forerun.types import Borrows, Dependency, Draft, Weights


class SuffixState(CorpusDrafterState):
    """Prompt and own output of one request as a suffix tree; ``num_prompt`` of the tokens are the prompt's."""

    def __init__(self, tree: SuffixTree, num_prompt: int, session: str) -> None:
        super().__init__(num_prompt, session)
        self.tree = tree

    @property
    def tokens(self) -> list[int]:
        return self.tree.tokens

    def fork(self) -> SuffixState:
        return SuffixState(self.tree.copy(), self.num_prompt, self.session)

    def truncate(self, length: int) -> None:
        """Rebuilt from the tokens that stay: cuts are rare, and an undo log would double every token's memory."""
        if length >= self.num_observed:
            return
        kept = self.tree.tokens[:length]
        self.tree = SuffixTree(self.tree.max_depth)
        self.append(kept)

    def append(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.tree.append(token)


class SuffixDrafter(CorpusDrafter[SuffixState]):
    """Chains or trees by frequency, as long as the match warrants."""

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
        super().__init__(config, config.max_depth)
        self._search = DraftSearch(config)

    @classmethod
    def build(cls, config: SuffixConfig, context: BuildContext) -> SuffixDrafter:
        """Reads the corpus file, if the configuration names one."""
        return cls(config).read_corpus(context)

    def begin(self, request: DraftRequest) -> SuffixState:
        return SuffixState(SuffixTree(self.config.max_depth), len(request.prompt), request.session)

    def propose_one(self, state: SuffixState, limit: DraftLimit) -> Draft:
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
