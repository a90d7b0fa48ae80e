"""Drafts with a second model: one forward of the whole batch per depth, over keys and values of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from forerun.cache.block_pool import PoolExhaustedError
from forerun.cache.paged_cache import PagedCache
from forerun.cache.sequence import Window
from forerun.drafters.base import Drafter, DraftLimit, DraftRequest, MethodInfo
from forerun.drafters.draft_model.config import DraftModelConfig
from forerun.drafters.draft_model.growing_draft import GrowingDraft
from forerun.drafters.draft_model.pass_builder import PassBuilder
from forerun.drafters.draft_model.state import DraftModelState
from forerun.drafters.draft_model.strand import Strand
from forerun.drafters.draft_model.vocabulary import check_vocabulary, over_vocabulary
from forerun.drafters.method import BuildContext
from forerun.errors import ForerunError
from forerun.models.base import Target
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.noise import KeyedNoise
from forerun.types import Borrows, Dependency, Draft, Features, Weights

BLOCK_SIZE = 16


class DraftModelDrafter(Drafter[DraftModelState]):
    """Chains and trees by a second model with a store and a block pool of its own.

    A request whose tokens the model can't read, whose text is longer than its context or that finds the pool full gets
    no draft; nothing else depends on it.
    """

    info: ClassVar[MethodInfo] = MethodInfo(
        name="draft_model",
        dependency=Dependency.SEQUENTIAL,
        borrows=Borrows.NOTHING,
        weights=Weights.SEPARATE,
        summary="a second, smaller model of the same vocabulary, token by token",
        has_trees=True,
        max_num_speculative_tokens=31,
        default_grid=(1, 2, 3, 4, 5, 6, 7),
    )

    def __init__(
        self,
        config: DraftModelConfig,
        model: Target,
        *,
        vocab_size: int,
        num_slots: int,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        self.config = config
        self.model = model
        self.cache = PagedCache(model, -(-num_slots // BLOCK_SIZE), BLOCK_SIZE, kv_dtype=kv_dtype)
        self._vocab_size = vocab_size

    @classmethod
    def build(cls, config: DraftModelConfig, context: BuildContext) -> DraftModelDrafter:
        """Needs the target's view and a draft model. Raises ``ForerunError`` where its tokenizer is another one."""
        if context.draft_model is None or context.view is None:
            raise ForerunError("a draft model for method draft_model", "none", "name one, or choose another method")
        target = context.view.target
        check_vocabulary(target, context.tokenizer, context.draft_model)
        return cls(
            config,
            context.draft_model.target,
            vocab_size=target.traits.vocab_size,
            num_slots=context.num_slots,
            kv_dtype=context.kv_dtype,
        )

    def begin(self, request: DraftRequest) -> DraftModelState:
        return DraftModelState(
            self.cache, request.sampler, len(request.prompt), is_recurrent=self.model.traits.has_recurrent_state
        )

    def observe(self, state: DraftModelState, committed: Sequence[int], features: Features | None) -> None:
        state.tokens.extend(committed)

    def end(self, state: DraftModelState) -> None:
        self.cache.free(state.sequence)

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> DraftModelState:
        state = self.begin(request)
        state.tokens = list(exported["tokens"])
        return state

    def propose(self, states: Sequence[DraftModelState], limits: Sequence[DraftLimit]) -> list[Draft]:
        for state in states:
            state.settle()
        able = [index for index, state in enumerate(states) if self._num_tokens(state, limits[index]) > 0]
        self._catch_up([states[index] for index in able])
        strands = {index: strand for index in able if (strand := self._open(states[index], limits[index])) is not None}
        self._grow(list(strands.values()))
        return [
            strands[index].growing.draft(self.info.name) if index in strands else Draft()
            for index in range(len(states))
        ]

    def _num_tokens(self, state: DraftModelState, limit: DraftLimit) -> int:
        """How deep this request may be drafted, 0 where the model can't follow its text."""
        traits = self.model.traits
        if limit.is_tree and traits.has_recurrent_state:
            raise ForerunError(
                f"chains from {traits.name}, whose recurrent state can't branch", "a tree", "draft chains"
            )
        if not state.tokens or max(state.pending()) >= traits.vocab_size:
            return 0
        return min(limit.num_tokens, limit.num_rows, traits.max_context - len(state.tokens))

    def _catch_up(self, states: Sequence[DraftModelState]) -> None:
        """Run committed tokens in passes of bounded size until what is left, anchors included, fits one."""
        while sum(len(state.pending()) for state in states) > self.config.max_pass_rows:
            builder = PassBuilder()
            windows: list[tuple[DraftModelState, Window]] = []
            for state in states:
                num_rows = min(len(state.pending()) - 1, self.config.max_pass_rows - builder.num_rows)
                window = self._open_window(state, num_rows) if num_rows > 0 else None
                if window is None:
                    continue
                slots = torch.cat([window.prefix_slots, window.slots])
                builder.add(
                    state.sequence.id,
                    state.pending()[:num_rows],
                    slots,
                    advances_state=True,
                    wants_logits=False,
                )
                windows.append((state, window))
            if not windows:
                return
            self.model.forward(builder.build(), self.cache.store)
            for state, window in windows:
                self._close_window(state, window, state.pending()[: len(window.slots)], len(window.slots))

    def _open(self, state: DraftModelState, limit: DraftLimit) -> Strand | None:
        num_tokens = self._num_tokens(state, limit)
        width = min(self.config.branching, limit.num_rows) if limit.is_tree else 1
        num_pending = len(state.pending())
        window = self._open_window(state, num_pending + width * (num_tokens - 1))
        if window is None:
            return None
        num_rows = limit.num_rows if limit.is_tree else num_tokens
        return Strand(state, num_tokens, width, GrowingDraft(num_rows), window, num_pending)

    def _grow(self, strands: Sequence[Strand]) -> None:
        """One pass per depth; committed tokens go with the first. Afterwards every window is closed."""
        borders = {}
        for depth in range(1, max((strand.num_tokens for strand in strands), default=0) + 1):
            work = [(strand, rows) for strand in strands if (rows := strand.next_rows(depth))]
            if not work:
                break
            builder = PassBuilder()
            for strand, rows in work:
                for row in rows:
                    tokens = strand.state.pending() if depth == 1 else strand.tokens_of([row])
                    builder.add(
                        strand.state.sequence.id,
                        tokens,
                        strand.slots_to(row),
                        advances_state=strand.is_chain or depth == 1,
                        wants_logits=True,
                    )
            output = self.model.forward(builder.build(), self.cache.store)
            logits = iter(over_vocabulary(output.logits.cpu(), self._vocab_size))
            for strand, rows in work:
                strand.growing.grow([(row, self._children(strand, row, next(logits))) for row in rows])
            if depth == 1:
                # A recurrent model's state is a value: what drafts make of it is dropped at the end.
                borders = dict(self.cache.store.states)
        for strand in strands:
            state, drafted = strand.state, strand.run_rows if strand.is_chain else []
            tokens = [*state.pending(), *strand.tokens_of(drafted)]
            self._close_window(state, strand.window, tokens, strand.num_pending)
            if state.sequence.id in borders:
                self.cache.store.states[state.sequence.id] = borders[state.sequence.id]

    def _children(self, strand: Strand, row: int, logits: Tensor) -> list[tuple[int, float]]:
        """The best next tokens behind ``row`` with their log-probabilities, best first."""
        sampler = strand.state.sampler
        path = strand.growing.path(row)
        position = len(strand.state.tokens) + len(path)
        tokens = sampler.draft_tokens(
            logits,
            position,
            [*strand.state.output, *strand.tokens_of(path)],
            count=strand.width,
            is_keyed=self.config.draft_sampling == "keyed",
            temperature_scale=self.config.temperature,
        )
        if strand.is_chain:
            return [(tokens[0], 0.0)]
        return list(zip(tokens, self._values(sampler, tokens, position, logits), strict=True))

    def _values(self, sampler: KeyedSampler, tokens: list[int], position: int, logits: Tensor) -> list[float]:
        """How likely the target is thought to draw each of ``tokens``, as log-probabilities.

        Greedy drafts: log q. Keyed ones: the target draws the largest of log p / T + G, so the chance that one of these
        children is it goes by log q / T + G, as a softmax over them.
        """
        temperature = sampler.params.temperature * self.config.temperature
        if self.config.draft_sampling == "greedy" or temperature == 0.0:
            return [float(value) for value in torch.log_softmax(logits.double(), dim=0)[tokens]]
        ids = np.sort(np.array(tokens))
        noise = dict(zip(ids.tolist(), KeyedNoise(sampler.seed, sampler.choice).at(position, ids), strict=True))
        scores = torch.tensor([float(logits[token]) / temperature + noise[token] for token in tokens])
        return [float(value) for value in torch.log_softmax(scores.double(), dim=0)]

    def _open_window(self, state: DraftModelState, num_rows: int) -> Window | None:
        try:
            return self.cache.open_window(state.sequence, num_rows)
        except PoolExhaustedError:
            return None

    def _close_window(self, state: DraftModelState, window: Window, tokens: Sequence[int], num_committed: int) -> None:
        """Keep the rows of ``tokens``; a recurrent model keeps its committed ones alone."""
        if self.model.traits.has_recurrent_state:
            tokens = tokens[:num_committed]
        self.cache.close_window(window, range(len(tokens)), num_committed)
        state.record(tokens)
