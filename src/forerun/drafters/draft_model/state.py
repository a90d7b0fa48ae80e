"""What the draft model remembers of one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.cache.paged_cache import PagedCache
from forerun.cache.sequence import Sequence as CachedSequence
from forerun.drafters.base import DrafterState
from forerun.sampling.keyed_sampler import KeyedSampler


class DraftModelState(DrafterState):
    """Committed tokens, and keys and values of some prefix in the drafter's own pool.

    ``computed`` are the tokens behind the pool's positions: committed ones, then drafts that may yet be committed. Keys
    and values are valid exactly as far as ``computed`` agrees with ``tokens``; ``settle`` cuts the rest.
    """

    def __init__(self, cache: PagedCache, sampler: KeyedSampler, num_prompt: int, *, is_recurrent: bool) -> None:
        self.sampler = sampler
        self.num_prompt = num_prompt
        self.tokens: list[int] = []
        self.computed: list[int] = []
        self._cache = cache
        self._is_recurrent = is_recurrent
        self.sequence: CachedSequence = cache.open(reuse=False)
        # Below this length computed and tokens are known to agree.
        self._num_agreed = 0

    @property
    def num_observed(self) -> int:
        return len(self.tokens)

    @property
    def output(self) -> list[int]:
        """Committed tokens behind the prompt."""
        return self.tokens[self.num_prompt :]

    def pending(self) -> Sequence[int]:
        """Committed tokens whose keys and values are not there yet; after ``settle`` at least the anchor."""
        return self.tokens[len(self.computed) :]

    def settle(self) -> None:
        """Roll back to the committed tokens before the anchor: rejected drafts leave, accepted ones stay."""
        limit = max(0, min(len(self.computed), len(self.tokens) - 1))
        while self._num_agreed < limit and self.computed[self._num_agreed] == self.tokens[self._num_agreed]:
            self._num_agreed += 1
        self._roll_back(min(self._num_agreed, limit))

    def record(self, tokens: Sequence[int]) -> None:
        """The pool now holds these tokens' keys and values too."""
        self.computed.extend(tokens)
        assert len(self.computed) == self.sequence.num_computed, "tokens and pool positions go together"

    def fork(self) -> DraftModelState:
        twin = DraftModelState(self._cache, self.sampler, self.num_prompt, is_recurrent=self._is_recurrent)
        self._cache.free(twin.sequence)
        twin.sequence = self._cache.fork(self.sequence)
        twin.tokens = self.tokens.copy()
        twin.computed = self.computed.copy()
        twin._num_agreed = self._num_agreed
        return twin

    def truncate(self, length: int) -> None:
        """Tokens go; keys and values follow when the state settles."""
        del self.tokens[length:]
        self._num_agreed = min(self._num_agreed, length)

    def export(self) -> dict[str, Any]:
        """Tokens alone: keys and values are computed again where the state is restored."""
        return {"tokens": self.tokens.copy()}

    def _roll_back(self, length: int) -> None:
        if length < len(self.computed) and self._is_recurrent:
            # Recurrent state can't be cut, only rebuilt.
            length = 0
        del self.computed[length:]
        self._num_agreed = length
        self._cache.truncate(self.sequence, length)
