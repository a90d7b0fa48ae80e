"""Who takes part in the next pass, and with how many rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from forerun.cache.paged_cache import PagedCache
from forerun.drafters.base import DraftLimit
from forerun.engine.drafting import Drafting
from forerun.engine.request import Request
from forerun.engine.row_limits import RowLimits


@dataclass(frozen=True, slots=True)
class Work:
    """One request's part of a pass: ``num_committed`` rows of committed tokens not yet computed, then a draft.

    ``is_complete``: these rows reach the anchor, so its logits are wanted and a token comes of it.
    """

    request: Request
    num_committed: int
    is_complete: bool
    limit: DraftLimit


class Scheduler:
    """First come, first served, under one budget of rows a pass and the pool's blocks.

    A request is admitted when its longest possible run fits beside those of all running requests, so that no running
    request can ever fail for want of blocks. Decoding goes before prefill; what is left of the budget prefills in
    order of arrival, at most ``prefill_rows`` a pass. ``limits`` choose within these bounds; drafts that cost nothing
    are asked for in full (``has_free_drafts``), since they can be cut when they are known.
    """

    def __init__(
        self,
        cache: PagedCache,
        drafting: Drafting,
        row_budget: int,
        *,
        is_recurrent: bool,
        prefill_rows: int | None = None,
        limits: RowLimits | None = None,
        has_free_drafts: bool = False,
    ) -> None:
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._cache = cache
        self._drafting = drafting
        self._row_budget = row_budget
        self._prefill_rows = row_budget if prefill_rows is None else prefill_rows
        self._limits = limits
        self._has_free_drafts = has_free_drafts
        self._is_recurrent = is_recurrent
        self._num_promised = 0

    def num_blocks_of(self, num_prompt_tokens: int, max_tokens: int) -> int:
        """Blocks that a request of this size can come to hold; one more, since a shared block may have to be copied."""
        return self._cache.num_blocks_for(num_prompt_tokens + max_tokens + self._drafting.max_rows) + 1

    @property
    def longest_run(self) -> int:
        """Most prompt and output tokens together of a request that the pool can hold; below 1 where none can."""
        return (self._cache.pool.num_blocks - 1) * self._cache.block_size - self._drafting.max_rows

    def add(self, request: Request) -> None:
        """Put a request at the end of the queue."""
        self.waiting.append(request)

    def admit(self) -> list[Request]:
        """Requests that start now, in order of arrival."""
        admitted = []
        while self.waiting and self._num_promised + self._promise(self.waiting[0]) <= self._cache.pool.num_blocks:
            request = self.waiting.popleft()
            self._num_promised += self._promise(request)
            self.running.append(request)
            admitted.append(request)
        return admitted

    def remove(self, request: Request) -> None:
        """Take a finished or cancelled request out, wherever it is."""
        if request in self.running:
            self.running.remove(request)
            self._num_promised -= self._promise(request)
        else:
            self.waiting.remove(request)

    def plan(self) -> list[Work]:
        """The next pass. Drafts are cut evenly when the budget can't hold all of them; anchors always fit."""
        decoding = [request for request in self.running if not request.is_prefilling]
        num_left = self._row_budget
        pending = []
        for request in decoding:
            num_uncomputed = self._num_uncomputed(request)
            if num_uncomputed <= num_left:
                pending.append((request, num_uncomputed))
                num_left -= num_uncomputed
        num_for_drafts = self._num_for_drafts(pending, num_left)
        works = []
        for index, (request, num_uncomputed) in enumerate(pending):
            num_rows = min(self._drafting.max_rows, num_for_drafts // (len(pending) - index))
            limit = self._drafting.limit(request.num_tokens_left, num_rows)
            num_for_drafts -= limit.num_rows
            num_left -= limit.num_rows
            works.append(Work(request, num_uncomputed, True, limit))
        if len(decoding) < len(self.running):
            works += self._plan_prefill([request for request in self.running if request.is_prefilling], num_left)
        return works

    def _num_for_drafts(self, pending: Sequence[tuple[Request, int]], num_left: int) -> int:
        """Draft rows of the next pass: those of the budget, or as many as pay."""
        if self._limits is None or self._has_free_drafts or not pending:
            return num_left
        most = self._drafting.max_rows
        num_wanted = sum(self._drafting.limit(request.num_tokens_left, most).num_rows for request, _ in pending)
        num_committed = sum(num_uncomputed for _, num_uncomputed in pending)
        context = sum(request.num_tokens for request, _ in pending) / len(pending)
        return self._limits.draft_rows(num_committed, len(pending), min(num_wanted, num_left), context)

    def _plan_prefill(self, requests: Sequence[Request], num_budget_left: int) -> list[Work]:
        works: list[Work] = []
        num_left = min(num_budget_left, self._prefill_rows)
        if self._limits is not None and requests and num_left > 0:
            num_taken = self._row_budget - num_budget_left
            num_left = self._limits.prefill_rows(num_taken, num_left, _num_computed(requests[0]))
        for request in requests:
            if num_left <= 0:
                break
            num_uncomputed = self._num_uncomputed(request)
            chunk = min(num_uncomputed, num_left)
            if self._is_recurrent:
                chunk = self._to_checkpoint(request, chunk)
            works.append(Work(request, chunk, chunk == num_uncomputed, DraftLimit(0, 0)))
            num_left -= chunk
        return works

    def _to_checkpoint(self, request: Request, chunk: int) -> int:
        """End a recurrent prefill at the prompt's last block border once: the only place where a hit can land."""
        start, size = _num_computed(request), self._cache.block_size
        border = (len(request.prompt) - 1) // size * size
        return border - start if start < border < start + chunk else chunk

    def _num_uncomputed(self, request: Request) -> int:
        return request.num_tokens - _num_computed(request)

    def _promise(self, request: Request) -> int:
        return self.num_blocks_of(len(request.prompt), request.max_tokens)


def _num_computed(request: Request) -> int:
    assert request.sequence is not None, "a running request has a sequence"
    return request.sequence.num_computed
