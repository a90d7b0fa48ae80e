"""Our own engine as a backend: one fresh engine a trial over a target that stays loaded."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psutil
import torch

from forerun.backends.base import Backend, CostProbe, RequestRecord, TrialRecord
from forerun.backends.own.probe import OwnProbe
from forerun.conditions import NO_ARTIFACT, Artifact, Conditions
from forerun.drafters.method import DraftModel
from forerun.engine.describe import conditions_of
from forerun.engine.drafting import Drafting, most_draft_rows
from forerun.engine.engine import Engine
from forerun.engine.request import Request
from forerun.errors import ForerunError
from forerun.models.device import choose_kv_dtype
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.sampling.params import SamplingParams
from forerun.workloads.prompt import Prompt

BLOCK_SIZE = 16
# Rows of a prefill slice, whatever drafts: both arms of a pair read their prompts in the same passes.
PREFILL_ROWS = 256


@dataclass(slots=True)
class _InFlight:
    prompt: Prompt
    request: Request
    submitted: float
    token_times: list[float] = field(default_factory=list)


class OwnBackend(Backend):
    """Runs trials in this process. ``drafters`` are second models by name, loaded once.

    Every trial and every probed pass has keys and values in ``kv_dtype``, as ``Engine`` takes it.
    """

    name = "forerun"

    def __init__(
        self, loaded: LoadedTarget, drafters: Mapping[str, LoadedTarget] | None = None, *, kv_dtype: str = "auto"
    ) -> None:
        self.loaded = loaded
        self.kv_dtype = kv_dtype
        self._artifacts = {name: drafter.artifact for name, drafter in (drafters or {}).items()}
        self._drafters = {
            name: DraftModel(drafter.target, drafter.tokenizer) for name, drafter in (drafters or {}).items()
        }
        self._probe = OwnProbe(loaded, self._drafters, PREFILL_ROWS, choose_kv_dtype(kv_dtype))

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files that this backend runs: the target's, then the drafters'."""
        return (self.loaded.artifact, *self._artifacts.values())

    @property
    def probe(self) -> CostProbe:
        """Passes and drafts of the engine itself."""
        return self._probe

    def check(self, drafting: Drafting, drafter: str) -> None:
        """See ``Backend``: a tree for a recurrent target, another tokenizer, a missing drafter."""
        self._engine(drafting, drafter, concurrency=1, num_tokens=BLOCK_SIZE)

    def conditions(self, drafting: Drafting, params: SamplingParams, *, concurrency: int, drafter: str) -> Conditions:
        """See ``Backend``."""
        engine = self._engine(drafting, drafter, concurrency=concurrency, num_tokens=BLOCK_SIZE)
        artifact: Artifact = self._artifacts[drafter] if drafter else NO_ARTIFACT
        return conditions_of(engine, params, self.loaded.artifact, artifact, concurrency=concurrency)

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids as the target sees them: through its chat template, where it has one and the prompt is a chat."""
        tokenizer = self.loaded.tokenizer
        if tokenizer is None:
            raise ForerunError("a target with a tokenizer", self.loaded.target.traits.name, "choose another target")
        if prompt.text is not None or not tokenizer.has_chat_template:
            return tuple(tokenizer.encode(prompt.plain_text))
        if tokenizer.takes_tools:
            tools = [tool.as_dict() for tool in prompt.tools] or None
            return tuple(tokenizer.chat([message.as_dict() for message in prompt.messages], tools))
        return tuple(tokenizer.chat([message.as_dict() for message in prompt.messages_without_tools()]))

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
        longest = max(len(prompt) for prompt in ids) + params.max_tokens
        engine = self._engine(drafting, drafter, concurrency=concurrency, num_tokens=longest)
        if warm_corpus:
            _warm(engine, warm_corpus)
        with _collected():
            return _closed_loop(engine, prompts, ids, params, concurrency)

    def _engine(self, drafting: Drafting, drafter: str, *, concurrency: int, num_tokens: int) -> Engine:
        """Cold, with room for ``concurrency`` requests of ``num_tokens`` tokens and all of their drafts."""
        room = num_tokens + drafting.max_rows + 3 * BLOCK_SIZE
        return Engine(
            self.loaded,
            drafting,
            draft_model=self._drafter(drafter),
            cache_tokens=room * concurrency,
            kv_dtype=self.kv_dtype,
            block_size=BLOCK_SIZE,
            row_budget=self._row_budget(drafting, concurrency),
            prefill_rows=PREFILL_ROWS,
            reuses_prefixes=False,
        )

    def _row_budget(self, drafting: Drafting, concurrency: int) -> int:
        """A slice of prefill beside every request's largest draft: the same for all that ``tune`` compares.

        So nothing is ever cut, and drafts take no row from a prompt.
        """
        most = max(drafting.max_rows, most_draft_rows())
        # A recurrent target runs what it accepted once more, in front of the next draft.
        num_replayed = most if self.loaded.target.traits.has_recurrent_state else 0
        return PREFILL_ROWS + concurrency * (1 + num_replayed + most)

    def _drafter(self, name: str) -> DraftModel | None:
        if not name:
            return None
        if name not in self._drafters:
            known = ", ".join(self._drafters) or "none"
            raise ForerunError(f"a drafter among {known}", repr(name), "name it in the plan")
        return self._drafters[name]


def _warm(engine: Engine, corpus: Sequence[Sequence[int]]) -> None:
    """Fill the method's shared corpus. A method without one can't be warmed: refused, not ignored."""
    ingest = getattr(engine.drafter, "ingest", None)
    if ingest is None:
        raise ForerunError(
            "a method with a shared corpus (ngram, suffix) for a warm trial",
            engine.drafting.method,
            "drop warm_corpus or choose such a method",
        )
    ingest(corpus)


@contextlib.contextmanager
def _collected() -> Iterator[None]:
    """No garbage collection inside the block, none left over from before.

    What a run allocates stays in the young generation meanwhile, so that a young collection before the next one
    finds it: a full one walks everything that torch and transformers ever made, for longer than a short trial takes.
    """
    was_enabled = gc.isenabled()
    gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _closed_loop(
    engine: Engine, prompts: Sequence[Prompt], ids: Sequence[Sequence[int]], params: SamplingParams, concurrency: int
) -> TrialRecord:
    waiting = deque(zip(prompts, ids, strict=True))
    in_flight: dict[int, _InFlight] = {}
    done: dict[int, RequestRecord] = {}
    order: list[int] = []
    memory = _MemoryWatch()
    start = time.perf_counter()
    while waiting or in_flight:
        while waiting and len(in_flight) < concurrency:
            prompt, tokens = waiting.popleft()
            (request,) = engine.submit(tokens, params)
            in_flight[request.id] = _InFlight(prompt, request, time.perf_counter())
            order.append(request.id)
        events = engine.step()
        now = time.perf_counter()
        for event in events:
            entry = in_flight[event.request.id]
            entry.token_times += [now - entry.submitted] * len(event.tokens)
            if event.request.is_finished:
                done[event.request.id] = _record(engine, entry, now - entry.submitted)
                del in_flight[event.request.id]
        memory.look()
    seconds = time.perf_counter() - start
    return TrialRecord(tuple(done[id] for id in order), seconds, memory.peak)


class _MemoryWatch:
    """Most memory seen between rounds: the process's, or on a GPU that of the allocator."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._is_cuda = torch.cuda.is_available()
        self.peak = 0
        if self._is_cuda:
            torch.cuda.reset_peak_memory_stats()

    def look(self) -> None:
        """Called once a round."""
        now = torch.cuda.max_memory_allocated() if self._is_cuda else self._process.memory_info().rss
        self.peak = max(self.peak, now)


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
