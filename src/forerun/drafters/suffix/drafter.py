"""Drafts the most frequent continuation of what the text ends with (SuffixDecoding, arXiv 2411.04975)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.corpus.corpora import Corpora
from forerun.drafters.corpus.corpus import Corpus
from forerun.drafters.corpus.match import Match
from forerun.drafters.method import BuildContext
from forerun.drafters.suffix.candidate import Candidate, most_frequent_path, most_probable_tree
from forerun.drafters.suffix.config import SuffixConfig
from forerun.drafters.suffix.continuations import Continuations, State
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
        self._budgets = tuple(map(config.budget, range(config.max_depth)))
        self._turns: dict[int, int] = {}

    @classmethod
    def build(cls, config: SuffixConfig, context: BuildContext) -> SuffixDrafter:
        """Needs nothing of the target but, for a corpus file of text, its tokenizer."""
        drafter = cls(config)
        drafter.corpora.read_file(context)
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
        best, source = self._best(tree, tree.match(), limit, 0.0), "suffix:request"
        for part in self.corpora.parts(state.session):
            found = self._best(part, part.match(tree.tokens, self.config.max_depth - 1), limit, best.score)
            if found.score > best.score:
                best, source = found, "suffix:corpus"
        if not best.tokens:
            return Draft()
        return Draft(best.tokens, best.parents, survival=best.probabilities, source=source)

    def _best(
        self, source: Continuations[State], matches: Sequence[Match[State]], limit: DraftLimit, floor: float
    ) -> Candidate:
        """The candidate of highest score; the longer match wins ties. None at or under ``floor`` is looked for.

        Up to some match length, ``turn``, longer matches allow more tokens; beyond it ``max_depth`` leaves fewer.
        Matches below come first, longest first, then those beyond: the early ones are good and spare the rest.
        """
        turn = self._turn(limit)
        best = Candidate(score=floor)
        beyond: list[tuple[State, int]] = []
        for match in matches:
            if match.longest > turn:
                lengths = range(max(match.shortest, turn + 1), match.longest + 1)
                # Equal places offer equal paths: the shortest match allows most of it. Trees differ with their depth.
                beyond += [(match.state, length) for length in (reversed(lengths) if limit.is_tree else lengths[:1])]
            if match.shortest <= turn:
                length = min(match.longest, turn)
                if self._num_tokens(length, limit) <= best.score:
                    # No token counts for more than 1, and shorter matches allow no more tokens.
                    break
                found = self._candidate(source, match.state, length, limit, best.score)
                if found is not None and found.score > best.score:
                    best = found
        for place, length in reversed(beyond):
            found = self._candidate(source, place, length, limit, best.score)
            if found is not None and found.score >= best.score and found.score > floor:
                best = found
        return best if best.tokens else Candidate()

    def _turn(self, limit: DraftLimit) -> int:
        """The longest match length whose draft ``max_depth`` does not cut."""
        if limit.is_tree:
            return self.config.max_depth - limit.num_tokens
        most = min(limit.num_tokens, limit.num_rows, self.config.max_depth)
        if most not in self._turns:
            self._turns[most] = max(
                length
                for length, budget in enumerate(self._budgets)
                if length == 0 or min(most, budget) <= self.config.max_depth - length
            )
        return self._turns[most]

    def _num_tokens(self, length: int, limit: DraftLimit) -> int:
        """Tokens that a match of ``length`` may draft."""
        if limit.is_tree:
            return min(limit.num_rows, self._budgets[length])
        return min(limit.num_tokens, limit.num_rows, self._budgets[length], self.config.max_depth - length)

    def _candidate(
        self, source: Continuations[State], state: State, length: int, limit: DraftLimit, floor: float
    ) -> Candidate | None:
        """What a match of ``length`` offers; None if that can't reach ``floor``."""
        num_tokens = self._num_tokens(length, limit)
        if num_tokens * source.highest_count(state) / source.count(state) < floor:
            return None
        if limit.is_tree:
            depth = min(limit.num_tokens, self.config.max_depth - length)
            return most_probable_tree(source, state, num_tokens, depth, self.config.min_token_prob)
        return most_frequent_path(source, state, num_tokens, self.config.min_token_prob)
