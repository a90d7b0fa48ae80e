"""The sampler written down plainly: whole rows in float64, every score and noise. What the shipped one must equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forerun.sampling.noise import FloatRow, IdRow, KeyedNoise
from forerun.sampling.params import SamplingParams


class PlainSampler:
    """The draws of one choice of one request, without a single shortcut."""

    def __init__(
        self, params: SamplingParams, *, seed: int, choice: int, prompt: Sequence[int], end_ids: Sequence[int] = ()
    ) -> None:
        self.params = params
        self._noise = KeyedNoise(seed, choice)
        self._prompt = list(prompt)
        self._end_ids = list(end_ids)

    def scores(self, logits: Tensor, output: Sequence[int]) -> FloatRow:
        """Logits after penalties, bias and the end-token ban, float64."""
        params = self.params
        scores = logits.to(torch.float64, copy=True).numpy()
        for token in set(self._prompt) | set(output) if params.repetition_penalty != 1.0 else ():
            negative = scores[token] < 0
            scores[token] = (
                scores[token] * params.repetition_penalty if negative else scores[token] / params.repetition_penalty
            )
        for token in set(output):
            scores[token] -= params.presence_penalty + params.frequency_penalty * list(output).count(token)
        for token, bias in params.logit_bias:
            scores[token] += bias
        if len(output) < params.min_tokens:
            scores[self._end_ids] = -np.inf
        return scores

    def candidates(self, logits: Tensor, output: Sequence[int], temperature: float) -> tuple[IdRow, FloatRow]:
        """Ascending ids that may be drawn and their scores, the largest being 0."""
        params = self.params
        scores = self.scores(logits, output)
        with np.errstate(over="ignore"):
            scores = (scores - scores.max()) / temperature
        ids = np.arange(scores.size)
        if 0 < params.top_k < scores.size:
            best = np.argsort(-scores, kind="stable")[: params.top_k]
            ids = np.sort(best[scores[best] > -np.inf])
        if params.top_p < 1.0:
            ids = ids[_nucleus(scores[ids], params.top_p)]
        if params.min_p > 0.0:
            ids = ids[np.exp(scores[ids]) >= params.min_p]
        return ids, scores[ids]

    def drawn(self, logits: Tensor, position: int, output: Sequence[int], temperature: float) -> list[int]:
        """Every token that may be drawn at ``position``, in the order of the draw; the first is the token."""
        if temperature == 0.0:
            scores = self.scores(logits, output)
            return [int(token) for token in np.argsort(-scores, kind="stable") if scores[token] > -np.inf]
        ids, scores = self.candidates(logits, output, temperature)
        totals = scores + self._noise.row(position, logits.numel())[ids]
        return [int(ids[i]) for i in np.argsort(-totals, kind="stable") if totals[i] > -np.inf]

    def logprobs(self, logits: Tensor, token: int, count: int) -> tuple[float, list[tuple[int, float]]]:
        """Log-softmax of the raw row at ``token``, and its ``count`` best."""
        row = logits.to(torch.float64).numpy()
        row = row - row.max()
        row = row - np.log(np.exp(row).sum())
        best = [i for i in np.argsort(-row, kind="stable")[:count] if row[i] > -np.inf]
        return float(row[token]), [(int(i), float(row[i])) for i in best]


def _nucleus(scores: FloatRow, p: float) -> IdRow:
    weights = np.exp(scores)
    mass = weights.sum()
    # Entries this small hold less than 1 - p together; leaving them out keeps the running sum short.
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] >= mass * (1.0 - p) / weights.size]
    count = int(np.searchsorted(np.cumsum(weights[order]), p * mass)) + 1
    return np.sort(order[:count])
