"""The engine: requests in, rounds, completions out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from forerun.cache.paged_cache import PagedCache
from forerun.cache.pool_plan import PoolPlan
from forerun.drafters.base import Drafter, DraftRequest, TargetView
from forerun.drafters.method import BuildContext, DraftModel
from forerun.drafters.registry import build, check_num_speculative_tokens, find_method
from forerun.engine.drafting import Drafting
from forerun.engine.request import Completion, FinishReason, Request
from forerun.engine.round import RoundEvent, RoundRunner
from forerun.engine.row_limits import RowLimits
from forerun.engine.scheduler import Scheduler
from forerun.engine.stopping import TextWatcher
from forerun.errors import ForerunError
from forerun.models.base import Target
from forerun.models.device import choose_kv_dtype
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.tokenizer import Tokenizer
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.noise import random_seed
from forerun.sampling.params import SamplingParams
from forerun.types import Weights

DEFAULT_ROW_BUDGET = 256

Prompt = str | Sequence[int]


class Engine:
    """Serves requests over one target with one way of drafting.

    ``model`` is a path, a hub or catalog name, or a target that is already loaded. What is loaded here is loaded
    ``exact``, as ``load_target`` takes it. ``drafter`` overrides the method's own construction (tests, trained heads).
    ``kv_dtype`` (auto, float32, bfloat16, int8) is the number type of keys and values, auto that of each model;
    ``cache_tokens`` or ``cache_bytes`` bounds them for all requests together, a draft model's included. ``row_budget``
    bounds the rows of one pass, ``prefill_rows`` those of them that read prompts (default: what decoding leaves);
    ``limits`` choose within both by what passes cost. With ``reuses_prefixes`` published prompt blocks are shared
    between requests. Raises ``ForerunError`` for whatever can't be loaded, drafted or fitted.
    """

    def __init__(
        self,
        model: str | Path | LoadedTarget | Target,
        drafting: Drafting | None = None,
        *,
        draft_model: str | Path | LoadedTarget | DraftModel | None = None,
        drafter: Drafter[Any] | None = None,
        cache_tokens: int | None = None,
        cache_bytes: int | None = None,
        kv_dtype: str = "auto",
        exact: bool = True,
        block_size: int = 16,
        row_budget: int = DEFAULT_ROW_BUDGET,
        reuses_prefixes: bool = True,
        prefill_rows: int | None = None,
        limits: RowLimits | None = None,
    ) -> None:
        loaded = _load(model, exact=exact)
        self.target: Target = loaded if isinstance(loaded, Target) else loaded.target
        self.tokenizer: Tokenizer | None = None if isinstance(loaded, Target) else loaded.tokenizer
        self.drafting = drafting or Drafting()
        self.reuses_prefixes = reuses_prefixes
        self.row_budget = row_budget
        self.prefill_rows = row_budget if prefill_rows is None else prefill_rows
        self.limits = limits
        self._require_fitting_options()
        second = None
        if drafter is None:
            info = find_method(self.drafting.method).info
            check_num_speculative_tokens(info, self.drafting.num_speculative_tokens)
            if self.drafting.is_tree and not info.has_trees:
                raise ForerunError(f"chains for method {info.name}", "a tree", "draft chains")
            second = _load_draft_model(draft_model, exact=exact)
        self.pool_plan = PoolPlan.of(
            [self.target, *([second.target] if second else [])],
            block_size=block_size,
            kv_dtype=choose_kv_dtype(kv_dtype),
            cache_tokens=cache_tokens,
            cache_bytes=cache_bytes,
        )
        if drafter is None:
            context = BuildContext(
                TargetView(self.target), self.tokenizer, second, self.pool_plan.num_tokens, self.pool_plan.kv_dtype
            )
            drafter = build(self.drafting.method, self.drafting.knobs, context)
        self.drafter = drafter
        self.cache = PagedCache(self.target, self.pool_plan.num_blocks, block_size, kv_dtype=self.pool_plan.kv_dtype)
        self.scheduler = Scheduler(
            self.cache,
            self.drafting,
            row_budget,
            is_recurrent=self.target.traits.has_recurrent_state,
            prefill_rows=self.prefill_rows,
            limits=limits,
            has_free_drafts=self.drafter.info.weights is Weights.NONE,
        )
        self._runner = RoundRunner(self.target, self.cache, self.drafter, reuses_prefixes, limits)
        self._next_id = 0
        self._streamed: dict[int, deque[RoundEvent]] = {}

    def _require_fitting_options(self) -> None:
        """Rows and drafts that the target and each other allow."""
        if self.prefill_rows < 1:
            raise ForerunError("prefill_rows of 1 or more", f"{self.prefill_rows}", "raise it, or leave it out")
        if self.row_budget < 1 + self.drafting.max_rows:
            raise ForerunError(
                f"a row budget of at least {1 + self.drafting.max_rows} (one anchor and its draft)",
                f"{self.row_budget}",
                "raise row_budget or lower N",
            )
        if self.drafting.is_tree and self.target.traits.has_recurrent_state:
            raise ForerunError(
                f"chains for {self.target.traits.name}, whose recurrent state can't branch", "a tree", "draft chains"
            )

    def submit(self, prompt: Prompt, params: SamplingParams | None = None, *, session: str = "") -> list[Request]:
        """Queue a prompt (text, or token ids): one request per choice, all with one seed.

        Raises ``ForerunError`` for an empty prompt, or one that doesn't fit the context or the cache.
        """
        params = params or SamplingParams()
        tokens = self._tokens_of(prompt)
        max_tokens = self._fitting_length(len(tokens), params)
        self._require_known_ids(params)
        if params.stop and self.tokenizer is None:
            raise ForerunError("a tokenizer for stop strings", "a target without one", "use stop_token_ids")
        seed = random_seed() if params.seed is None else params.seed
        requests = []
        for choice in range(params.n):
            request = self._new_request(tokens, params, max_tokens, seed, choice, session)
            self.scheduler.add(request)
            requests.append(request)
        return requests

    def step(self) -> list[RoundEvent]:
        """One round over everything that can run; finished requests leave.

        A round that fails, or is interrupted, leaves requests as they were, or cancelled where it had begun to commit.
        """
        self.scheduler.admit()
        for request in self.scheduler.running:
            if request.drafter_state is None:
                self._start(request)
        works = self.scheduler.plan()
        if not works:
            return []
        try:
            events = self._runner.run(works)
            for event in events:
                if event.request.id in self._streamed:
                    self._streamed[event.request.id].append(event)
        finally:
            for work in works:
                if work.request.is_finished:
                    self._finish(work.request)
        return events

    def cancel(self, request: Request) -> None:
        """End a request between rounds and give back what it held; a finished one stays as it is."""
        if request.is_finished:
            return
        request.finish_reason = FinishReason.CANCELLED
        self._finish(request)

    @property
    def has_work(self) -> bool:
        """Whether a request is waiting or running."""
        return bool(self.scheduler.waiting or self.scheduler.running)

    def generate(self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | None = None) -> list[Completion]:
        """Completions in the order of the prompts, ``n`` choices each; all prompts run together."""
        batch: Sequence[Prompt] = [prompts] if _is_one_prompt(prompts) else prompts  # type: ignore[list-item, assignment]
        requests: list[Request] = []
        try:
            for prompt in batch:
                requests += self.submit(prompt, params)
            while self.has_work:
                self.step()
        finally:
            for request in requests:
                self.cancel(request)
        return [self.completion(request) for request in requests]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[RoundEvent]:
        """Round by round what happens to one prompt; closing the iterator cancels it."""
        requests = self.submit(prompt, params)
        # Whoever drives the engine, a stream beside this one or a generate inside it, the events end up here.
        events: deque[RoundEvent] = deque()
        self._streamed |= dict.fromkeys((request.id for request in requests), events)
        try:
            while events or not all(request.is_finished for request in requests):
                if events:
                    yield events.popleft()
                else:
                    self.step()
        finally:
            for request in requests:
                del self._streamed[request.id]
                self.cancel(request)

    def completion(self, request: Request) -> Completion:
        """What a request came to so far."""
        reason = request.finish_reason
        return Completion(
            request.watcher.text,
            tuple(request.output),
            reason.value if reason else "",
            request.sampler.seed,
            request.sampler.choice,
            len(request.prompt),
            request.num_cached_tokens,
            request.counts,
            request.timings,
            tuple(request.logprobs),
        )

    def _tokens_of(self, prompt: Prompt) -> tuple[int, ...]:
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise ForerunError("token ids for a target without a tokenizer", "text", "pass a list of token ids")
            tokens = tuple(self.tokenizer.encode(prompt))
        else:
            tokens = tuple(prompt)
        if not tokens:
            raise ForerunError("a prompt of at least one token", "an empty prompt", "write something to continue")
        vocab_size = self.target.traits.vocab_size
        strange = next((token for token in tokens if not 0 <= token < vocab_size), None)
        if strange is not None:
            raise ForerunError(f"token ids from 0 to {vocab_size - 1}", f"{strange}", "use this target's tokenizer")
        return tokens

    def _require_known_ids(self, params: SamplingParams) -> None:
        vocab_size = self.target.traits.vocab_size
        named = (*params.stop_token_ids, *(token for token, _ in params.logit_bias))
        strange = next((token for token in named if token >= vocab_size), None)
        if strange is not None:
            raise ForerunError(
                f"stop and bias token ids below the vocabulary of {vocab_size}", f"{strange}", "use this target's ids"
            )

    def _fitting_length(self, num_prompt_tokens: int, params: SamplingParams) -> int:
        """Tokens that may be emitted: the request's limit, cut where the context ends."""
        context = self.target.traits.max_context
        if num_prompt_tokens >= context:
            raise ForerunError(
                f"a prompt shorter than the context of {context} tokens",
                f"{num_prompt_tokens} tokens",
                "shorten the prompt",
            )
        max_tokens = min(params.max_tokens, context - num_prompt_tokens)
        num_blocks = self.scheduler.num_blocks_of(num_prompt_tokens, max_tokens)
        if num_blocks > self.cache.pool.num_blocks:
            raise self.pool_plan.refusal(
                num_prompt_tokens,
                max_tokens,
                num_needed=num_blocks * self.cache.block_size,
                num_fitting=self.scheduler.longest_run,
            )
        return max_tokens

    def _new_request(
        self, tokens: tuple[int, ...], params: SamplingParams, max_tokens: int, seed: int, choice: int, session: str
    ) -> Request:
        traits = self.target.traits
        natural_ends = () if params.ignore_eos else traits.eos_token_ids
        ends = frozenset((*natural_ends, *params.stop_token_ids))
        self._next_id += 1
        return Request(
            self._next_id,
            tokens,
            params,
            KeyedSampler(
                params,
                seed=seed,
                choice=choice,
                prompt=tokens,
                eos_token_ids=tuple(sorted(ends)),
                vocab_size=traits.vocab_size,
            ),
            TextWatcher(self.tokenizer.stream() if self.tokenizer else None, params.stop),
            max_tokens,
            session,
            end_token_ids=ends,
        )

    def _start(self, request: Request) -> None:
        """Give an admitted request its sequence, on a shared prefix where there is one, and its drafter state."""
        if request.sequence is not None:
            self.cache.free(request.sequence)
        request.sequence = self.cache.open(request.prompt, reuse=self.reuses_prefixes)
        num_hit = request.sequence.num_computed
        request.num_cached_tokens = request.num_observed = request.num_featured = num_hit
        request.drafter_state = self.drafter.begin(
            DraftRequest(request.id, request.prompt, request.sampler, request.session)
        )
        if num_hit:
            self.drafter.observe(request.drafter_state, request.tokens(0, num_hit), None)

    def _finish(self, request: Request) -> None:
        self.scheduler.remove(request)
        if request.sequence is not None:
            self.cache.free(request.sequence)
            request.sequence = None
        if request.drafter_state is not None:
            self.drafter.end(request.drafter_state)
            request.drafter_state = None


def _load(model: str | Path | LoadedTarget | Target, *, exact: bool) -> LoadedTarget | Target:
    if isinstance(model, str | Path):
        return load_target(model, exact=exact)
    target = model if isinstance(model, Target) else model.target
    if not exact and target.traits.is_bit_exact:
        raise ForerunError(
            f"exact=False where {target.traits.name} is loaded", "a target that is exact", "pass it to load_target"
        )
    return model


def _load_draft_model(model: str | Path | LoadedTarget | DraftModel | None, *, exact: bool) -> DraftModel | None:
    if model is None or isinstance(model, DraftModel):
        return model
    loaded = load_target(model, exact=exact) if isinstance(model, str | Path) else model
    return DraftModel(loaded.target, loaded.tokenizer)


def _is_one_prompt(prompts: Prompt | Sequence[Prompt]) -> bool:
    return isinstance(prompts, str) or bool(len(prompts) and isinstance(prompts[0], int))
