"""Our own engine as a backend: one fresh engine a trial over a target that stays loaded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forerun.backends.base import Backend, RequestRecord, TrialRecord
from forerun.drafters.method import DraftModel
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.engine.request import Request
from forerun.errors import ForerunError
from forerun.models.loading.load import LoadedTarget
from forerun.sampling.params import SamplingParams
from forerun.workloads.prompt import Prompt

ROWS_PER_SLICE = 64


@dataclass(slots=True)
class _InFlight:
    prompt: Prompt
    request: Request
    submitted: float
    token_times: list[float] = field(default_factory=list)


class OwnBackend(Backend):
    """Runs trials in this process. ``drafters`` are second models by name, loaded once."""

    name = "forerun"

    def __init__(self, loaded: LoadedTarget, drafters: Mapping[str, DraftModel] | None = None) -> None:
        self.loaded = loaded
        self.drafters = dict(drafters or {})

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids as the target sees them: through its chat template, where it has one and the prompt is a chat."""
        tokenizer = self.loaded.tokenizer
        if tokenizer is None:
            raise ForerunError("a target with a tokenizer", self.loaded.target.traits.name, "choose another target")
        if prompt.text is not None or not tokenizer.has_chat_template:
            return tuple(tokenizer.encode(prompt.plain_text))
        if prompt.tools and tokenizer.takes_tools:
            tools = [tool.as_dict() for tool in prompt.tools]
            return tuple(tokenizer.chat([message.as_dict() for message in prompt.messages], tools))
        return tuple(tokenizer.chat([message.as_dict() for message in prompt.messages_with_tools()]))

    def run(
        self,
        prompts: Sequence[Prompt],
        drafting: Drafting,
        params: SamplingParams,
        *,
        concurrency: int,
        drafter: str = "",
        warm_corpus: Sequence[Sequence[int]] = (),
    ) -> TrialRecord:
        """See ``Backend.run``. The cache is sized so that all requests in flight fit."""
        ids = [self.prompt_ids(prompt) for prompt in prompts]
        longest = max(len(prompt) for prompt in ids) + params.max_tokens + drafting.max_rows + ROWS_PER_SLICE
        engine = Engine(
            self.loaded,
            drafting,
            draft_model=self._drafter(drafter),
            cache_tokens=longest * concurrency,
            row_budget=max(ROWS_PER_SLICE, concurrency * (1 + drafting.max_rows)),
            reuses_prefixes=False,
        )
        if warm_corpus:
            _warm(engine, warm_corpus)
        return _closed_loop(engine, prompts, ids, params, concurrency)

    def _drafter(self, name: str) -> DraftModel | None:
        if not name:
            return None
        if name not in self.drafters:
            raise ForerunError(
                f"a drafter among {', '.join(self.drafters) or 'none'}", repr(name), "name it in the plan"
            )
        return self.drafters[name]


def _warm(engine: Engine, corpus: Sequence[Sequence[int]]) -> None:
    """Fill the method's shared corpus. A method without one can't be warmed: refused, not ignored."""
    ingest = getattr(engine.drafter, "ingest", None)
    if ingest is None:
        raise ForerunError(
            "a method with a shared corpus (suffix) for a warm trial",
            engine.drafting.method,
            "drop warm_corpus or choose such a method",
        )
    ingest(corpus)


def _closed_loop(
    engine: Engine, prompts: Sequence[Prompt], ids: Sequence[Sequence[int]], params: SamplingParams, concurrency: int
) -> TrialRecord:
    waiting = deque(zip(prompts, ids, strict=True))
    in_flight: dict[int, _InFlight] = {}
    done: dict[str, RequestRecord] = {}
    start = time.perf_counter()
    while waiting or in_flight:
        while waiting and len(in_flight) < concurrency:
            prompt, tokens = waiting.popleft()
            (request,) = engine.submit(tokens, params)
            in_flight[request.id] = _InFlight(prompt, request, time.perf_counter())
        events = engine.step()
        now = time.perf_counter()
        for event in events:
            entry = in_flight[event.request.id]
            entry.token_times += [now - entry.submitted] * len(event.tokens)
            if event.request.is_finished:
                done[entry.prompt.id] = _record(engine, entry, now - entry.submitted)
                del in_flight[event.request.id]
    return TrialRecord(tuple(done[prompt.id] for prompt in prompts), time.perf_counter() - start)


def _record(engine: Engine, entry: _InFlight, seconds: float) -> RequestRecord:
    completion = engine.completion(entry.request)
    return RequestRecord(
        entry.prompt.id,
        entry.request.prompt,
        completion.token_ids,
        completion.text,
        completion.finish_reason,
        completion.seed,
        completion.num_cached_tokens,
        seconds,
        tuple(entry.token_times),
        completion.counts,
        completion.timings,
    )
