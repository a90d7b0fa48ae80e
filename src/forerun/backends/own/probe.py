"""Single passes and drafts of our own engine, to time C and D."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from forerun.backends.base import CostProbe
from forerun.cache.paged_cache import PagedCache
from forerun.cache.sequence import Sequence as CachedSequence
from forerun.drafters.base import DraftRequest, TargetView
from forerun.drafters.method import BuildContext, DraftModel
from forerun.drafters.registry import build
from forerun.engine.drafting import Drafting
from forerun.models.base import AttentionGroup, PassInput
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams

BLOCK_SIZE = 16
PREFILL_ROWS = 64


@dataclass(frozen=True, slots=True)
class _Bed:
    """Sequences of one length, ready for a pass of up to ``max_rows`` rows each."""

    cache: PagedCache
    sequences: tuple[CachedSequence, ...]
    max_rows: int


class OwnProbe(CostProbe):
    """Times nothing itself; keeps the last bed of sequences, so that points that share one only pay for their pass."""

    def __init__(self, loaded: LoadedTarget, drafters: Mapping[str, DraftModel]) -> None:
        self.traits = loaded.target.traits
        self._loaded = loaded
        self._drafters = drafters
        self._beds: dict[tuple[int, int], _Bed] = {}

    def run_pass(self, rows: int, sequences: int, context: int) -> None:
        """See ``CostProbe``; nothing of the pass is kept."""
        num_rows = rows // sequences
        bed = self._bed(sequences, context, num_rows)
        self._pass(bed, num_rows, is_kept=False)

    def draft_runner(
        self, drafting: Drafting, params: SamplingParams, drafter: str, text: Sequence[int]
    ) -> Callable[[int, int], None]:
        """See ``CostProbe``. The states stay, so that a repeated call pays for drafting alone."""
        target = self._loaded.target
        context = BuildContext(TargetView(target), self._loaded.tokenizer, self._drafters.get(drafter))
        built = build(drafting.method, drafting.knobs, context)
        states: list[Any] = []

        def run(num_speculative_tokens: int, sequences: int) -> None:
            while len(states) < sequences:
                sampler = KeyedSampler(
                    params, seed=len(states), choice=0, prompt=text, eos_token_ids=target.traits.eos_token_ids,
                    vocab_size=target.traits.vocab_size,
                )  # fmt: skip
                state = built.begin(DraftRequest(len(states), tuple(text), sampler))
                built.observe(state, text, None)
                states.append(state)
            wanted = Drafting(drafting.method, num_speculative_tokens, is_tree=drafting.is_tree, knobs=drafting.knobs)
            limit = wanted.limit(num_speculative_tokens + 1, wanted.max_rows)
            built.propose(states[:sequences], [limit] * sequences)

        return run

    def _bed(self, sequences: int, context: int, num_rows: int) -> _Bed:
        bed = self._beds.get((sequences, context))
        if bed is None or bed.max_rows < num_rows:
            self._beds.clear()
            max_rows = max(PREFILL_ROWS, num_rows)
            blocks = sequences * (-(-(context + max_rows) // BLOCK_SIZE) + 1)
            cache = PagedCache(self._loaded.target, blocks, BLOCK_SIZE)
            bed = _Bed(cache, tuple(cache.open() for _ in range(sequences)), max_rows)
            self._fill(bed, context)
            self._beds[sequences, context] = bed
        return bed

    def _fill(self, bed: _Bed, context: int) -> None:
        """Bring every sequence to its length with real rows: memory that was never written reads faster than it is."""
        for start in range(0, context, PREFILL_ROWS):
            self._pass(bed, min(PREFILL_ROWS, context - start), is_kept=True)

    def _pass(self, bed: _Bed, num_rows: int, *, is_kept: bool) -> None:
        windows = [bed.cache.open_window(sequence, num_rows) for sequence in bed.sequences]
        at = torch.arange(num_rows)
        total = num_rows * len(windows)
        groups = tuple(
            AttentionGroup(
                tuple(range(index * num_rows, (index + 1) * num_rows)), torch.cat([window.prefix_slots, window.slots])
            )
            for index, window in enumerate(windows)
        )
        batch = PassInput(
            torch.arange(total) % self._loaded.target.traits.vocab_size,
            torch.cat([window.start + at for window in windows]),
            torch.cat([window.slots for window in windows]),
            tuple(window.sequence.id for window in windows for _ in range(num_rows)),
            groups,
            tuple(range(num_rows - 1, total, num_rows) if is_kept else range(total)),
            {window.sequence.id: num_rows if is_kept else 1 for window in windows},
        )
        states = dict(bed.cache.store.states)
        self._loaded.target.forward(batch, bed.cache.store)
        for window in windows:
            bed.cache.close_window(window, range(num_rows if is_kept else 0), num_rows if is_kept else 0)
        if not is_kept:
            bed.cache.store.states.clear()
            bed.cache.store.states.update(states)
