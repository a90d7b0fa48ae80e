"""The round: propose, lay out rows, forward, verify, commit, observe, count.

Every engine step is one of these. A request that still prefills takes part with a chunk of its prompt and no draft.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from forerun.cache.paged_cache import PagedCache
from forerun.drafters.base import Drafter
from forerun.engine.layout import Layout, Part, lay_out
from forerun.engine.request import FinishReason, Request
from forerun.engine.row_limits import RowLimits
from forerun.engine.scheduler import Work
from forerun.engine.trimming import trimmed
from forerun.models.base import PassOutput, Target
from forerun.models.kv_store import RecurrentState
from forerun.sampling.argmax import argmax_lowest
from forerun.sampling.host_logits import HostLogits
from forerun.types import Draft, Features, Timings
from forerun.verify.keyed_match import match
from forerun.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class RoundEvent:
    """What one round did for one request. ``is_prefill``: the token came from the prompt's pass, which is no round.

    ``tokens`` are those given out after cuts; ``accepted_rows`` the draft's rows that the target agreed with.
    """

    request: Request
    draft: Draft
    accepted_rows: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str
    is_prefill: bool


NO_DRAFT = Draft()


@dataclass(slots=True)
class Stopwatch:
    """Tells the phases of one round apart."""

    last: float = field(default_factory=time.perf_counter)

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        seconds, self.last = now - self.last, now
        return seconds


@dataclass(frozen=True, slots=True)
class RoundRunner:
    """Everything a round needs besides the requests."""

    target: Target
    cache: PagedCache
    drafter: Drafter[Any]
    publishes_prefixes: bool = True
    limits: RowLimits | None = None

    def run(self, works: Sequence[Work]) -> list[RoundEvent]:
        """One round over a batch with ragged acceptance; finished requests are marked, not removed."""
        watch = Stopwatch()
        drafts = trimmed(works, self._propose(works), self.limits)
        draft = watch.lap()
        states = dict(self.cache.store.states)
        try:
            windows = [
                self.cache.open_window(_sequence(work.request), work.num_committed + len(draft))
                for work, draft in zip(works, drafts, strict=True)
            ]
            layout = lay_out(works, drafts, windows)
            other = watch.lap()
            output = self.target.forward(layout.batch, self.cache.store, self.drafter.taps)
            logits = output.host_logits
            verify = watch.lap()
            verdicts = self._verify(layout, logits)
            sample = watch.lap()
        except BaseException:
            self._undo(works, states)
            raise
        try:
            events = [
                self._commit(part, verdict, logits, output)
                for part, verdict in zip(layout.parts, verdicts, strict=True)
            ]
            other += watch.lap()
            self._observe(layout, verdicts, output)
            draft += watch.lap()
        except BaseException:
            _abandon(works)
            raise
        num_works = len(works)
        share = Timings(draft / num_works, verify / num_works, sample / num_works, other / num_works)
        for work in works:
            work.request.timings += share
        return [event for event in events if event is not None]

    def _undo(self, works: Sequence[Work], states: Mapping[int, RecurrentState]) -> None:
        """A pass that failed leaves every request as it was: one request's error must not hold up the others."""
        for work in works:
            if (window := _sequence(work.request).window) is not None:
                self.cache.close_window(window, (), 0)
        self.cache.store.states.clear()
        self.cache.store.states.update(states)

    def _propose(self, works: Sequence[Work]) -> list[Draft]:
        """Drafts for the works that may have one; the rest get the empty draft."""
        asked = [work for work in works if work.limit.num_tokens > 0]
        if not asked:
            return [NO_DRAFT] * len(works)
        states = [work.request.drafter_state for work in asked]
        proposed = iter(self.drafter.propose(states, [work.limit for work in asked]))
        drafts = [next(proposed) if work.limit.num_tokens > 0 else NO_DRAFT for work in works]
        for work, draft in zip(works, drafts, strict=True):
            assert draft.depth <= work.limit.num_tokens, "a drafter keeps to its limit"
            assert len(draft) <= work.limit.num_rows, "a drafter keeps to its rows"
            assert all(0 <= token < self.target.traits.vocab_size for token in draft.tokens), "a drafter knows its ids"
        return drafts

    def _verify(self, layout: Layout, logits: HostLogits) -> list[Verdict]:
        """Keyed match per request. Plain greedy rows share one argmax; others are drawn left to right as needed."""
        is_any_greedy = any(part.work.request.sampler.is_plain_greedy for part in layout.parts)
        argmaxes = argmax_lowest(logits) if is_any_greedy and len(logits) else []
        return [self._verify_part(part, logits, argmaxes) for part in layout.parts]

    def _verify_part(self, part: Part, logits: HostLogits, argmaxes: Sequence[int]) -> Verdict:
        if not part.work.is_complete:
            return Verdict((), ())
        request, first = part.work.request, part.first_logit
        sampler, num_tokens = request.sampler, request.num_tokens

        if sampler.is_plain_greedy:
            return match(part.draft, lambda row, path: argmaxes[first + row], request.ends_at)

        def drawn(row: int, path: tuple[int, ...]) -> int:
            output = [*request.output, *path] if sampler.sees_output else ()
            return sampler.token(logits[first + row], num_tokens + len(path), output)

        return match(part.draft, drawn, request.ends_at)

    def _commit(self, part: Part, verdict: Verdict, logits: HostLogits, output: PassOutput) -> RoundEvent | None:
        """Keep the accepted rows in the cache, the tokens in the request; cut at stops and limits."""
        request, num_committed = part.work.request, part.work.num_committed
        kept = [*range(num_committed), *(num_committed - 1 + row for row in verdict.accepted_rows)]
        self.cache.close_window(part.window, kept, num_committed)
        if not part.work.is_complete:
            self._publish(request)
            return None
        is_prefill = request.is_prefilling
        rows = (0, *verdict.accepted_rows)
        text = ""
        tokens: list[int] = []
        for row, token in zip(rows, verdict.tokens, strict=False):
            if request.params.logprobs is not None:
                row_logits = logits[part.first_logit + row]
                request.logprobs.append(request.sampler.logprobs(row_logits, request.output, token))
            text += request.push(token)
            tokens.append(token)
            if request.is_finished:
                break
        if request.is_finished:
            text += request.finish_text()
        self._publish(request)
        if not is_prefill:
            request.tally.add(len(part.draft), part.draft.depth, verdict.num_accepted, len(tokens))
        return RoundEvent(request, part.draft, verdict.accepted_rows, tuple(tokens), text, is_prefill)

    def _publish(self, request: Request) -> None:
        sequence = _sequence(request)
        if self.publishes_prefixes and self.cache.has_news(sequence):
            self.cache.publish(sequence, request.tokens(0, sequence.num_computed))

    def _observe(self, layout: Layout, verdicts: Sequence[Verdict], output: PassOutput) -> None:
        """Hand each drafter state the tokens that became committed and the states of the rows that were kept."""
        for part, verdict in zip(layout.parts, verdicts, strict=True):
            request = part.work.request
            end = request.num_tokens if part.work.is_complete else part.window.start + part.work.num_committed
            committed = request.tokens(request.num_observed, end)
            self.drafter.observe(request.drafter_state, committed, _features(part, verdict, output))
            request.num_observed = end


def _features(part: Part, verdict: Verdict, output: PassOutput) -> Features | None:
    """States of the kept rows that the drafter has not seen: replayed rows were handed over when they were drafts."""
    if not output.taps:
        return None
    num_committed = part.work.num_committed
    rows = [*range(num_committed), *(num_committed - 1 + row for row in verdict.accepted_rows)]
    num_seen = max(0, part.work.request.num_featured - part.window.start)
    index = torch.tensor([part.first + row for row in rows[num_seen:]])
    part.work.request.num_featured = part.window.start + len(rows)
    return Features(part.window.start + num_seen, {tap: states[index] for tap, states in output.taps.items()})


def _abandon(works: Sequence[Work]) -> None:
    """Ends requests whose round is committed by half: what went on from there would be wrong."""
    for work in works:
        if work.request.finish_reason is None:
            work.request.finish_reason = FinishReason.CANCELLED


def _sequence(request: Request) -> Any:
    assert request.sequence is not None, "a running request has a sequence"
    return request.sequence
