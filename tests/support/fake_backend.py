"""A backend with a simulated clock and known economics, so that a whole tune runs in milliseconds and its right answer
is known: C and D are functions, texts and acceptance are given, noise is seeded by what is run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forerun.backends.base import Backend, CostProbe, RequestRecord, TrialRecord
from forerun.conditions import Conditions
from forerun.drafters.base import Drafter, DraftRequest
from forerun.drafters.registry import build, find_method
from forerun.engine.drafting import Drafting
from forerun.models.base import TargetTraits
from forerun.sampling.params import SamplingParams
from forerun.sweep.forecast import recording_of
from forerun.sweep.load_guard import LoadSample
from forerun.sweep.oracle import verify_against
from forerun.types import Draft, RoundCounts, Timings, Weights
from forerun.workloads.prompt import Prompt

VOCAB = 50_000
PROMPT_LENGTH = 40
PREFILL_ROWS = 64
# Bookkeeping of a prompt's pass, inside its time.
PREFILL_OVERHEAD = 0.01


def chance(*key: object) -> float:
    """A number in [0, 1) that depends on ``key`` alone."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6], "little") / 2**48


class Machine:
    """A simulated clock, and how much CPU time others took beside us."""

    def __init__(self) -> None:
        self.now = 0.0
        self.foreign = 0.0

    def clock(self) -> float:
        return self.now

    def sample(self) -> LoadSample:
        return LoadSample(self.now, 0.5, self.now + self.foreign, self.now, 0, 2)


@dataclass(frozen=True)
class Economics:
    """What things cost in seconds, and how often a serial drafter is right at a position (0-based) of its draft.

    ``start`` is what a method does with a prompt of so many tokens, once a request.
    """

    c: Callable[[int, int, float], float] = lambda rows, sequences, context: 0.03
    d: Callable[[str, int, int], float] = lambda method, n, sequences: 0.0
    acceptance: Callable[[str, int], float] = lambda workload, position: 0.0
    start: Callable[[str, int], float] = lambda method, num_tokens: 0.0
    noise: float = 0.01
    overhead: float = 0.0005


@dataclass(frozen=True)
class Call:
    """One run, as it was asked for."""

    prompts: tuple[str, ...]
    drafting: Drafting
    params: SamplingParams
    concurrency: int
    has_warm_corpus: bool


@dataclass
class FakeBackend(Backend):
    """Texts by workload name: ``loop`` repeats itself, ``copy`` repeats its prompt, anything else is fresh.

    ``on_run`` sees each call before it happens: it may raise, or load the machine. Candidates for which ``is_broken``
    says so give another text.
    """

    machine: Machine = field(default_factory=Machine)
    economics: Economics = field(default_factory=Economics)
    on_run: Callable[[Call], None] = lambda call: None
    on_check: Callable[[Drafting, str], None] = lambda drafting, drafter: None
    is_broken: Callable[[Drafting], bool] = lambda drafting: False
    has_probe: bool = True
    calls: list[Call] = field(default_factory=list)
    name = "simulated"

    def __post_init__(self) -> None:
        self._probe = FakeProbe(self)

    @property
    def probe(self) -> CostProbe | None:
        return self._probe if self.has_probe else None

    def check(self, drafting: Drafting, drafter: str) -> None:
        self.on_check(drafting, drafter)

    def conditions(self, drafting: Drafting, params: SamplingParams, *, concurrency: int, drafter: str) -> Conditions:
        return Conditions(
            engine=self.name,
            method=drafting.method,
            num_speculative_tokens=drafting.num_speculative_tokens,
            concurrency=concurrency,
            sampling=f"T={params.temperature:g}",
        )

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        return tuple(_tokens(prompt.id, PROMPT_LENGTH))

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
        call = Call(tuple(p.id for p in prompts), drafting, params, concurrency, bool(warm_corpus))
        self.calls.append(call)
        self.on_run(call)
        factor = math.exp(self.economics.noise * _normal(call.prompts, drafting, params.seed, params.temperature))
        start = self.machine.now
        waiting = [_Request(self, prompt, drafting, params, warm_corpus) for prompt in prompts]
        running: list[_Request] = []
        everything = list(waiting)
        while waiting or running:
            while waiting and len(running) < concurrency:
                running.append(waiting.pop(0))
                running[-1].submitted = self.machine.now
                self._spend(self._prefill(running[-1]) * factor)
                running[-1].timings += Timings(other=PREFILL_OVERHEAD)
                running[-1].give(1, self.machine.now)
            running = [request for request in running if not request.is_done]
            if running:
                self._round(running, drafting, factor)
        return TrialRecord(tuple(request.record() for request in everything), self.machine.now - start, 10**9)

    def _prefill(self, request: _Request) -> float:
        length = len(request.ids)
        slices = (self.economics.c(min(PREFILL_ROWS, length - at), 1, at) for at in range(0, length, PREFILL_ROWS))
        method = request.drafting.method
        return sum(slices) + (self.economics.start(method, length) if method != "off" else 0.0)

    def _round(self, running: Sequence[_Request], drafting: Drafting, factor: float) -> None:
        drafted = [next(request.rounds) for request in running]
        size = len(running)
        rows = sum(1 + counts.drafted for counts in drafted)
        context = sum(request.length for request in running) / size
        n = drafting.num_speculative_tokens
        draft = self.economics.d(drafting.method, n, size) * factor if n else 0.0
        verify = self.economics.c(rows, size, context) * factor
        other = (self.economics.overhead if n else 0.0) * factor
        self._spend(draft + verify + other)
        for request, counts in zip(running, drafted, strict=True):
            request.counts += counts
            request.timings += Timings(draft, verify, 0.0, other).divided(size)
            request.give(counts.emitted, self.machine.now)

    def _spend(self, seconds: float) -> None:
        self.machine.now += seconds


class _Request:
    """One request on its way. Its rounds are known: a replay for retrieval, chances for a serial drafter."""

    def __init__(
        self,
        backend: FakeBackend,
        prompt: Prompt,
        drafting: Drafting,
        params: SamplingParams,
        warm_corpus: Sequence[Sequence[int]],
    ) -> None:
        self.prompt, self.drafting, self.params = prompt, drafting, params
        self.ids = backend.prompt_ids(prompt)
        self.output = _output(prompt, self.ids, params)
        self.is_changed = backend.is_broken(drafting)
        self.counts, self.timings = RoundCounts(), Timings()
        self.times: list[float] = []
        self.submitted = 0.0
        self.warm_corpus = warm_corpus
        self.probe = backend._probe
        self.rounds = self._retrieved() if _is_retrieval(drafting) else self._drafted(backend.economics.acceptance)

    @property
    def is_done(self) -> bool:
        return len(self.times) >= len(self.output)

    @property
    def length(self) -> int:
        return len(self.ids) + len(self.times)

    def give(self, num_tokens: int, now: float) -> None:
        self.times += [now - self.submitted] * num_tokens

    def record(self) -> RequestRecord:
        tokens = (*self.output[:-1], self.output[-1] + 1) if self.is_changed else self.output
        return RequestRecord(
            self.prompt.id, self.ids, tokens, " ".join(map(str, tokens)), "length", self.params.seed or 0, 0,
            self.times[-1] if self.times else 0.0, tuple(self.times), self.counts, self.timings,
        )  # fmt: skip

    def _drafted(self, acceptance: Callable[[str, int], float]) -> Iterator[RoundCounts]:
        while True:
            done = len(self.times)
            left = len(self.output) - done
            n = self.drafting.limit(left, self.drafting.max_rows).num_tokens
            accepted = 0
            while accepted < n and chance(self.prompt.id, self.params.seed, done, accepted) < acceptance(
                self.prompt.workload, accepted
            ):
                accepted += 1
            yield RoundCounts.of_round(Draft.chain([0] * n), accepted, min(accepted + 1, left))

    def _retrieved(self) -> Iterator[RoundCounts]:
        """What a cold drafter would find in this very text."""
        drafter: Any = build(self.drafting.method, dict(self.drafting.knobs))
        if self.warm_corpus:
            drafter.ingest(self.warm_corpus)
        recording = recording_of(self.record(), self.probe.traits, self.params)
        state = drafter.begin(DraftRequest(0, self.ids, recording.sampler))
        drafter.observe(state, self.ids, None)
        seen = 0
        while True:
            done = len(self.times)
            drafter.observe(state, self.output[seen:done], None)
            seen = done
            limit = self.drafting.limit(len(self.output) - done, self.drafting.max_rows)
            draft = drafter.propose([state], [limit])[0] if limit.num_tokens else Draft()
            yield RoundCounts.of_round(draft, *verify_against(draft, self.output[done:]))


class FakeProbe(CostProbe):
    """Spends exactly C and D."""

    def __init__(self, backend: FakeBackend) -> None:
        self.traits = TargetTraits("simulated", "simulated", 1, 4, VOCAB, 2048, (VOCAB - 1,), False, True)
        self.prefill_rows = PREFILL_ROWS
        self._backend = backend

    def run_pass(self, rows: int, sequences: int, context: int) -> None:
        self._backend._spend(self._backend.economics.c(rows, sequences, context))

    def run_slice(self, rows: int, context: int) -> None:
        self._backend._spend(self._backend.economics.c(rows, 1, context))

    def draft_runner(
        self, drafting: Drafting, params: SamplingParams, drafter: str, text: Sequence[int]
    ) -> Callable[[int, int], None]:
        def run(n: int, sequences: int) -> None:
            self._backend._spend(self._backend.economics.d(drafting.method, n, sequences))

        return run

    def start_runner(
        self, drafting: Drafting, params: SamplingParams, drafter: str, text: Sequence[int]
    ) -> Callable[[int], None]:
        def run(num_tokens: int) -> None:
            economics = self._backend.economics
            self._backend._spend(economics.start(drafting.method, num_tokens) + economics.d(drafting.method, 1, 1))

        return run

    def new_drafter(self, drafting: Drafting, drafter: str = "") -> Drafter[Any]:
        return build(drafting.method, dict(drafting.knobs))


def _is_retrieval(drafting: Drafting) -> bool:
    return drafting.method != "off" and find_method(drafting.method).info.weights is Weights.NONE


def _output(prompt: Prompt, ids: Sequence[int], params: SamplingParams) -> tuple[int, ...]:
    """What the target says: decided by prompt, seed and temperature, whatever drafts."""
    key = (prompt.id, params.seed if params.temperature else None)
    if prompt.workload.startswith("loop"):
        return tuple(_tokens(key, 4) * (-(-params.max_tokens // 4)))[: params.max_tokens]
    if prompt.workload.startswith("copy"):
        copied = list(ids) * (-(-params.max_tokens // len(ids)))
        return tuple(
            token if chance("copied", key, at) < 0.93 else _tokens((key, at), 1)[0]
            for at, token in enumerate(copied[: params.max_tokens])
        )
    return tuple(_tokens(key, params.max_tokens))


def _tokens(key: object, count: int) -> list[int]:
    seed = int(chance("tokens", key) * 2**48)
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCAB - 2, count)]


def _normal(*key: object) -> float:
    return math.sqrt(-2 * math.log(1 - chance("a", *key))) * math.cos(2 * math.pi * chance("b", *key))
