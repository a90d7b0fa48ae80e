"""How requests come to an engine: how many at a time, in which order, interrupted or not, on how many threads."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from forerun.engine.engine import Engine
from forerun.engine.request import Completion, Request
from forerun.sampling.params import SamplingParams

Prompt = tuple[int, ...]

STAGGER_ROUNDS = 3


class Arrival(enum.Enum):
    """When a request comes: with its batch, or alone while others are decoding."""

    TOGETHER = "together"
    REVERSED = "reversed"
    STAGGERED = "staggered"


@dataclass(frozen=True)
class Serving:
    """At most ``batch`` requests at a time.

    With ``is_interrupted`` each is cancelled somewhere on its way and goes on as a new request, whose prompt is the
    text so far.
    """

    batch: int
    arrival: Arrival = Arrival.TOGETHER
    is_interrupted: bool = False


def serve(engine: Engine, prompts: Sequence[Prompt], params: SamplingParams, serving: Serving) -> list[Completion]:
    """Completions in the order of the prompts, one choice each; interrupted ones are put together again."""
    assert params.n == 1, "one choice a prompt"
    return _Service(engine, prompts, params, serving).run()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for everything inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cut_of(index: int, max_tokens: int) -> int:
    """Tokens after which the request of prompt ``index`` is interrupted: every length from 1 on comes up."""
    return 1 + 11 * index % max(1, max_tokens - 1)


class _Service:
    def __init__(self, engine: Engine, prompts: Sequence[Prompt], params: SamplingParams, serving: Serving) -> None:
        self._engine = engine
        self._prompts = prompts
        self._params = params
        self._serving = serving
        order = range(len(prompts))
        self._waiting = deque(reversed(order) if serving.arrival is Arrival.REVERSED else order)
        self._running: dict[int, Request] = {}
        self._heads: dict[int, Completion] = {}
        self._done: dict[int, Completion] = {}
        self._num_rounds_since_arrival = 0

    def run(self) -> list[Completion]:
        while self._waiting or self._running:
            for _ in range(self._num_arriving()):
                index = self._waiting.popleft()
                self._running[index] = self._submit(self._prompts[index], self._params)
                self._num_rounds_since_arrival = 0
            self._engine.step()
            self._num_rounds_since_arrival += 1
            for index, request in list(self._running.items()):
                if request.is_finished:
                    self._take(index, self._running.pop(index))
                elif self._is_due(index, request):
                    self._interrupt(index, request)
        return [self._done[index] for index in range(len(self._prompts))]

    def _num_arriving(self) -> int:
        if self._serving.arrival is Arrival.STAGGERED:
            has_room = len(self._running) < self._serving.batch
            is_time = not self._running or self._num_rounds_since_arrival >= STAGGER_ROUNDS
            return min(int(has_room and is_time), len(self._waiting))
        return 0 if self._running else min(self._serving.batch, len(self._waiting))

    def _submit(self, prompt: Prompt, params: SamplingParams) -> Request:
        (request,) = self._engine.submit(prompt, params)
        return request

    def _is_due(self, index: int, request: Request) -> bool:
        is_wanted = self._serving.is_interrupted and index not in self._heads
        return is_wanted and len(request.output) >= cut_of(index, self._params.max_tokens)

    def _interrupt(self, index: int, request: Request) -> None:
        self._engine.cancel(request)
        head = self._engine.completion(request)
        self._heads[index] = head
        rest = replace(self._params, max_tokens=self._params.max_tokens - len(head.token_ids))
        self._running[index] = self._submit((*self._prompts[index], *head.token_ids), rest)

    def _take(self, index: int, request: Request) -> None:
        tail = self._engine.completion(request)
        head = self._heads.get(index)
        self._done[index] = tail if head is None else _joined(head, tail)


def _joined(head: Completion, tail: Completion) -> Completion:
    return replace(
        tail,
        text=head.text + tail.text,
        token_ids=head.token_ids + tail.token_ids,
        logprobs=head.logprobs + tail.logprobs,
        num_prompt_tokens=head.num_prompt_tokens,
        num_cached_tokens=head.num_cached_tokens + tail.num_cached_tokens,
        counts=head.counts + tail.counts,
    )
