"""A request on its way through the engine."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from forerun.cache.sequence import Sequence
from forerun.drafters.base import DrafterState
from forerun.engine.round_tally import RoundTally
from forerun.engine.stopping import TextWatcher
from forerun.sampling.keyed_sampler import KeyedSampler, TokenLogprobs
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts, Timings


class FinishReason(enum.Enum):
    """Why a request ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(slots=True, eq=False)
class Request:
    """One choice of one prompt. The engine alone changes it.

    ``output`` holds committed tokens; the newest of ``prompt + output`` is the anchor. ``sequence`` and
    ``drafter_state`` exist while the request runs. The drafter has seen the tokens below ``num_observed`` and the
    tapped states below ``num_featured``.
    """

    id: int
    prompt: tuple[int, ...]
    params: SamplingParams
    sampler: KeyedSampler
    watcher: TextWatcher
    max_tokens: int
    session: str = ""
    output: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    tally: RoundTally = field(default_factory=RoundTally)
    timings: Timings = field(default_factory=Timings)
    num_cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    sequence: Sequence | None = None
    drafter_state: DrafterState | None = None
    num_observed: int = 0
    num_featured: int = 0
    end_token_ids: frozenset[int] = frozenset()

    @property
    def counts(self) -> RoundCounts:
        """Raw counts of the rounds so far."""
        return self.tally.counts()

    @property
    def num_tokens(self) -> int:
        """Committed tokens, prompt included."""
        return len(self.prompt) + len(self.output)

    @property
    def num_tokens_left(self) -> int:
        """Tokens that may still be emitted."""
        return self.max_tokens - len(self.output)

    @property
    def is_prefilling(self) -> bool:
        """Whether no token was emitted yet."""
        return not self.output

    @property
    def is_finished(self) -> bool:
        """Whether it ended, for whatever reason."""
        return self.finish_reason is not None

    def ends_at(self, token: int) -> bool:
        """Whether ``token`` ends the text. The sampler never draws one below the minimum length."""
        return token in self.end_token_ids

    def push(self, token: int) -> str:
        """Commit one token; returns the text that became final. Marks the request finished at a stop or limit."""
        self.output.append(token)
        if self.ends_at(token):
            self.finish_reason = FinishReason.STOP
            return ""
        text = self.watcher.push(token, may_stop=len(self.output) >= self.params.min_tokens)
        if self.watcher.is_stopped:
            self.finish_reason = FinishReason.STOP
        elif len(self.output) >= self.max_tokens:
            self.finish_reason = FinishReason.LENGTH
        return text

    def finish_text(self) -> str:
        """Text that was held back until the end; a stop string may still be in it."""
        return self.watcher.finish(may_stop=len(self.output) >= self.params.min_tokens)

    def tokens(self, start: int, end: int) -> list[int]:
        """Committed tokens of positions start..end-1."""
        split = len(self.prompt)
        return [*self.prompt[start:end], *self.output[max(0, start - split) : max(0, end - split)]]


@dataclass(frozen=True, slots=True)
class Completion:
    """What one choice came to. ``text`` is empty where the target has no tokenizer."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    seed: int
    choice: int
    num_prompt_tokens: int
    num_cached_tokens: int
    counts: RoundCounts
    timings: Timings
    logprobs: tuple[TokenLogprobs, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values, positions as [proposed, reached, accepted]."""
        counts = self.counts
        return {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "finish_reason": self.finish_reason,
            "seed": self.seed,
            "counts": {
                "rounds": counts.rounds,
                "rounds_without_draft": counts.rounds_without_draft,
                "drafted": counts.drafted,
                "accepted": counts.accepted,
                "emitted": counts.emitted,
                "positions": [[p.proposed, p.reached, p.accepted] for p in counts.positions],
            },
            "timings": {
                "draft": self.timings.draft,
                "verify": self.timings.verify,
                "sample": self.timings.sample,
                "other": self.timings.other,
            },
        }
