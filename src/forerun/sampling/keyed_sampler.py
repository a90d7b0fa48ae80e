"""The keyed sampler: the token at absolute position t is argmax(log p_t + G), whatever was drafted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forerun.sampling.argmax import argmax_lowest
from forerun.sampling.cuts import top_k
from forerun.sampling.host_logits import Logits
from forerun.sampling.logit_row import LogitRow
from forerun.sampling.noise import KeyedNoise
from forerun.sampling.params import SamplingParams
from forerun.sampling.processors import MaskRow, Processors
from forerun.sampling.token_logprobs import TokenLogprobs

__all__ = ["KeyedSampler", "TokenLogprobs", "argmax_lowest"]


class KeyedSampler:
    """Draws the tokens of one choice of one request: a pure function of logits, position and output so far.

    ``output`` always means the generated tokens before the one drawn, earlier drafts of the path included; ``position``
    is the absolute position of the token drawn. ``mask`` is the grammar's hook.

    ``is_greedy``: the noise is dropped. ``sees_output``: ``output`` enters a draw, as penalties, bans and a grammar
    look at it. ``is_plain_greedy``: each token is the argmax of its raw row, so that a batch can share one
    ``argmax_lowest``.

    Raises:
        ForerunError: a bias names a token outside the vocabulary; in any method: NaN or +inf logits, or no token left.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        seed: int,
        choice: int,
        prompt: Sequence[int],
        eos_token_ids: Sequence[int],
        vocab_size: int,
        mask: MaskRow | None = None,
    ) -> None:
        self.params = params
        self.seed = seed
        self.choice = choice
        self._noise = KeyedNoise(seed, choice)
        self._processors = Processors(
            params, prompt=prompt, eos_token_ids=eos_token_ids, vocab_size=vocab_size, mask=mask
        )
        self.is_greedy = params.temperature == 0.0
        self.sees_output = self._processors.is_reshaping
        self.is_plain_greedy = self.is_greedy and not self.sees_output

    def token(self, logits: Logits, position: int, output: Sequence[int]) -> int:
        """The target's token at ``position``; ``logits`` is its row, [vocabulary]."""
        row = self._processors.row(logits, output)
        if self.is_greedy:
            return row.argmax()
        found = self._processors.candidates(row, self.params.temperature)
        return int(self._noise.winners(found.scores, position, found.ids)[0])

    def law(self, logits: Logits, output: Sequence[int]) -> Tensor:
        """The processed probabilities that ``token`` draws from, float64 [vocabulary]; one-hot where T = 0."""
        row = self._processors.row(logits, output)
        law = np.zeros(row.size)
        if self.is_greedy:
            law[row.argmax()] = 1.0
        else:
            found = self._processors.candidates(row, self.params.temperature)
            weights = np.exp(found.scores)
            law[found.ids] = weights / weights.sum()
        return torch.from_numpy(law)

    def logprobs(self, logits: Logits, output: Sequence[int], token: int, k: int | None = None) -> TokenLogprobs:
        """Log-softmax of the raw target row at ``token`` and at its ``k`` best ids (default: as the request asks).

        Raw means before every processor, as most engines report; so ``output`` does not enter.
        """
        row = LogitRow.of(logits)
        log_mass = row.log_mass()
        logprob = float(row.exact[token]) - row.peak - log_mass
        count = (self.params.logprobs or 0) if k is None else k
        if not count:
            return TokenLogprobs(token, logprob)
        ids = row.among_largest(count)
        values = row.scores(ids, 1.0) - log_mass
        best = top_k(values, count)
        best = best[np.argsort(-values[best], kind="stable")]
        return TokenLogprobs(token, logprob, tuple(zip(ids[best].tolist(), values[best].tolist(), strict=True)))

    def draft_token(
        self,
        logits: Logits,
        position: int,
        output: Sequence[int],
        *,
        is_keyed: bool,
        temperature_scale: float = 1.0,
    ) -> int:
        """A drafter's token at ``position``: argmax(log q / T + G) with the target's own noise and processors.

        ``logits`` is the drafter's row over the target's vocabulary; q's temperature is the request's times
        ``temperature_scale``. Without ``is_keyed``, or where either is 0, the draft is q's argmax.
        """
        return self.draft_tokens(
            logits, position, output, count=1, is_keyed=is_keyed, temperature_scale=temperature_scale
        )[0]

    def draft_tokens(
        self,
        logits: Logits,
        position: int,
        output: Sequence[int],
        *,
        count: int,
        is_keyed: bool,
        temperature_scale: float = 1.0,
    ) -> list[int]:
        """The ``count`` best drafts in the order of ``draft_token``, best first: the children of a tree's node.

        Fewer come back where bans and cuts leave fewer.
        """
        row = self._processors.row(logits, output)
        temperature = self.params.temperature * temperature_scale
        if is_keyed and temperature > 0.0:
            found = self._processors.candidates(row, temperature)
            return [int(token) for token in self._noise.winners(found.scores, position, found.ids, count)]
        return _largest(row, count)


def _largest(row: LogitRow, count: int) -> list[int]:
    """Ids of the ``count`` largest logits above -inf, best first, ties to the lowest id."""
    if count == 1:
        return [row.argmax()]
    ids = row.among_largest(count)
    logits = row.at(ids)
    best = top_k(logits, count)
    return [int(token) for token in ids[best[np.argsort(-logits[best], kind="stable")]]]
