"""Single passes and drafts of our own engine, to time C and D."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from forerun.backends.base import CostProbe
from forerun.drafters.base import Drafter, DraftRequest, TargetView
from forerun.drafters.method import BuildContext, DraftModel
from forerun.drafters.registry import build
from forerun.engine.costs.pass_probe import PassProbe
from forerun.engine.drafting import Drafting
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams


class OwnProbe(CostProbe):
    """Passes of the loaded target, drafts of any method over it, keys and values in ``kv_dtype``."""

    def __init__(
        self,
        loaded: LoadedTarget,
        drafters: Mapping[str, DraftModel],
        prefill_rows: int,
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        self.traits = loaded.target.traits
        self.prefill_rows = prefill_rows
        self._loaded = loaded
        self._drafters = drafters
        self._kv_dtype = kv_dtype
        self._passes = PassProbe(loaded.target, kv_dtype=kv_dtype)

    def run_pass(self, rows: int, sequences: int, context: int) -> None:
        """See ``CostProbe``; nothing of the pass is kept."""
        self._passes.run_pass(rows, sequences, context)

    def run_slice(self, rows: int, context: int) -> None:
        """See ``CostProbe``; nothing of the pass is kept."""
        self._passes.run_slice(rows, context)

    def draft_runner(
        self, drafting: Drafting, params: SamplingParams, drafter: str, text: Sequence[int]
    ) -> Callable[[int, int], None]:
        """See ``CostProbe``. The states stay, so that a repeated call pays for drafting alone."""
        built = self.new_drafter(drafting, drafter)
        states: list[Any] = []

        def run(num_speculative_tokens: int, sequences: int) -> None:
            while len(states) < sequences:
                states.append(self._begin(built, params, text, len(states)))
            _propose(built, states[:sequences], drafting, num_speculative_tokens)

        return run

    def start_runner(
        self, drafting: Drafting, params: SamplingParams, drafter: str, text: Sequence[int]
    ) -> Callable[[int], None]:
        """See ``CostProbe``. Every call has a state of its own and gives it back."""
        built = self.new_drafter(drafting, drafter)

        def run(num_tokens: int) -> None:
            state = self._begin(built, params, text[:num_tokens], 0)
            _propose(built, [state], drafting, 1)
            built.end(state)

        return run

    def new_drafter(self, drafting: Drafting, drafter: str = "") -> Drafter[Any]:
        """See ``CostProbe``: with the target, its tokenizer and the named second model at hand."""
        view, second = TargetView(self._loaded.target), self._drafters.get(drafter)
        context = BuildContext(view, self._loaded.tokenizer, second, kv_dtype=self._kv_dtype)
        return build(drafting.method, drafting.knobs, context)

    def _begin(self, built: Drafter[Any], params: SamplingParams, text: Sequence[int], seed: int) -> Any:
        """The state of a request whose prompt ``text`` was just read."""
        traits = self.traits
        sampler = KeyedSampler(
            params, seed=seed, choice=0, prompt=text, eos_token_ids=traits.eos_token_ids, vocab_size=traits.vocab_size
        )
        state = built.begin(DraftRequest(seed, tuple(text), sampler))
        built.observe(state, text, None)
        return state


def _propose(built: Drafter[Any], states: Sequence[Any], drafting: Drafting, num_speculative_tokens: int) -> None:
    wanted = Drafting(drafting.method, num_speculative_tokens, is_tree=drafting.is_tree, knobs=drafting.knobs)
    limit = wanted.limit(num_speculative_tokens + 1, wanted.max_rows)
    built.propose(states, [limit] * len(states))
