"""What the same-text tests serve with does what it says: who runs beside whom, and who is interrupted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from forerun.engine.engine import Engine
from forerun.engine.request import Completion, FinishReason, Request
from forerun.sampling.params import SamplingParams
from support.serving import Arrival, Serving, cut_of, serve, threads
from support.toy_target import ToyTarget

PROMPTS = [(index, index + 1, index + 2) for index in range(7)]
PARAMS = SamplingParams(temperature=0.8, seed=1, max_tokens=9, ignore_eos=True, logprobs=2)


class WatchedEngine(Engine):
    """Keeps every request, and who was running in every round."""

    def __init__(self) -> None:
        super().__init__(ToyTarget(), reuses_prefixes=False)
        self.requests: list[Request] = []
        self.rounds: list[set[int]] = []

    def submit(self, *args: Any, **kwargs: Any) -> list[Request]:
        requests = super().submit(*args, **kwargs)
        self.requests += requests
        return requests

    def step(self) -> list[Any]:
        events = super().step()
        self.rounds.append({event.request.prompt[0] for event in events})
        return events


def served(serving: Serving) -> tuple[WatchedEngine, list[Completion]]:
    engine = WatchedEngine()
    return engine, serve(engine, PROMPTS, PARAMS, serving)


def test_a_batch_comes_at_once_and_the_next_when_it_is_done() -> None:
    engine, _ = served(Serving(3))
    assert engine.rounds == [{0, 1, 2}] * 9 + [{3, 4, 5}] * 9 + [{6}] * 9


def test_reversed_order() -> None:
    engine, completions = served(Serving(3, Arrival.REVERSED))
    assert engine.rounds == [{6, 5, 4}] * 9 + [{3, 2, 1}] * 9 + [{0}] * 9
    assert [len(completion.token_ids) for completion in completions] == [9] * 7


def test_staggered_requests_come_while_others_decode() -> None:
    engine, _ = served(Serving(2, Arrival.STAGGERED))
    assert engine.rounds[:8] == [{0}] * 3 + [{0, 1}] * 5
    assert max(len(running) for running in engine.rounds) == 2
    assert [request.prompt[0] for request in engine.requests] == list(range(7))


@pytest.mark.parametrize("arrival", Arrival)
def test_interrupted_requests_go_on_where_they_were(arrival: Arrival) -> None:
    engine, completions = served(Serving(3, arrival, is_interrupted=True))
    _, whole = served(Serving(1))
    cancelled = [request for request in engine.requests if request.finish_reason is FinishReason.CANCELLED]
    assert sorted(request.prompt[0] for request in cancelled) == list(range(7))
    assert all(len(request.output) == cut_of(request.prompt[0], 9) for request in cancelled)
    assert len({len(request.output) for request in cancelled}) > 3
    for completion, other in zip(completions, whole, strict=True):
        assert (completion.token_ids, completion.logprobs) == (other.token_ids, other.logprobs)
        assert (completion.num_prompt_tokens, completion.finish_reason) == (3, "length")


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()

    def fail() -> None:
        with threads(before + 2):
            assert torch.get_num_threads() == before + 2
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == before
