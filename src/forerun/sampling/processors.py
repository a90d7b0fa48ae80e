"""From a row of logits to the tokens that may be drawn.

Order: repetition, presence and frequency penalty, bias, grammar mask, end-token ban; then temperature, top-k, top-p,
min-p. Everything that decides is float64 and reduced by numpy in one fixed order, so a row's result depends on nothing
but the row. The rules are those of transformers' logits processors, save that ties at a cut keep the lowest ids there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forerun.errors import ForerunError
from forerun.sampling.cuts import top_k, top_p
from forerun.sampling.host_logits import Logits
from forerun.sampling.logit_row import LogitRow
from forerun.sampling.noise import FloatRow, IdRow
from forerun.sampling.nucleus import nucleus
from forerun.sampling.params import SamplingParams

MaskRow = Callable[[Sequence[int]], npt.NDArray[np.bool_]]
"""Maps the generated tokens so far to the tokens allowed next, bool [vocabulary]: where a grammar plugs in."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ascending token ids [n] and their scores [n]: log-probabilities up to a constant that makes the largest 0."""

    ids: IdRow
    scores: FloatRow

    def kept(self, index: IdRow) -> Candidates:
        """The candidates at ``index``, ascending."""
        return Candidates(self.ids[index], self.scores[index])


class Processors:
    """The pipeline of one request: everything that shapes the target's law except the noise.

    ``is_reshaping``: anything but temperature and cuts is on, so that the argmax may differ from the raw row's.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        prompt: Sequence[int],
        eos_token_ids: Sequence[int],
        vocab_size: int,
        mask: MaskRow | None = None,
    ) -> None:
        for token, _ in params.logit_bias:
            if token >= vocab_size:
                raise ForerunError(
                    f"logit_bias ids below the vocabulary of {vocab_size}", str(token), "name ids of this target"
                )
        self.params = params
        self.vocab_size = vocab_size
        self.mask = mask
        self.is_reshaping = _is_reshaping(params) or mask is not None
        self._all_ids = np.arange(vocab_size)
        self._prompt_ids = self._known(prompt)
        self._bias_ids = np.array([token for token, _ in params.logit_bias], dtype=np.int64)
        self._biases = np.array([bias for _, bias in params.logit_bias], dtype=np.float64)
        self._end_ids = self._known([*(() if params.ignore_eos else eos_token_ids), *params.stop_token_ids])

    def row(self, logits: Logits, output: Sequence[int]) -> LogitRow:
        """Logits after penalties, bias and bans; ``output`` are the tokens generated so far.

        Raises:
            ForerunError: the logits hold NaN or +inf, or no token is left.
        """
        row = LogitRow.of(logits)
        if row.exact.shape != (self.vocab_size,):
            raise ValueError(f"a row of {self.vocab_size} logits expected, found shape {row.exact.shape}")
        return LogitRow(self._reshaped(row.exact.astype(np.float64), output)) if self.is_reshaping else row

    def candidates(self, row: LogitRow, temperature: float) -> Candidates:
        """The tokens that survive temperature (> 0), top-k, top-p and min-p."""
        params = self.params
        if 0 < params.top_k < self.vocab_size:
            found = _scored(row, row.among_largest(params.top_k), temperature)
            found = found.kept(top_k(found.scores, params.top_k))
            if params.top_p < 1.0:
                found = found.kept(top_p(found.scores, params.top_p))
        elif params.top_p < 1.0:
            found = _scored(row, nucleus(row, temperature, params.top_p), temperature)
        elif params.min_p > 0.0:
            found = _scored(row, row.at_least(row.peak + temperature * math.log(params.min_p)), temperature)
        else:
            return Candidates(self._all_ids, row.scores(slice(None), temperature))
        if params.min_p > 0.0:
            found = found.kept(np.flatnonzero(np.exp(found.scores) >= params.min_p))
        return found

    def _reshaped(self, scores: FloatRow, output: Sequence[int]) -> FloatRow:
        """``scores`` after everything but temperature and cuts, in place."""
        self._penalise(scores, output)
        scores[self._bias_ids] += self._biases
        if self.mask is not None:
            scores[~np.asarray(self.mask(output))] = -np.inf
        if len(output) < self.params.min_tokens:
            scores[self._end_ids] = -np.inf
        return scores

    def _penalise(self, scores: FloatRow, output: Sequence[int]) -> None:
        params = self.params
        if params.repetition_penalty != 1.0:
            seen = np.union1d(self._prompt_ids, self._known(output))
            old = scores[seen]
            scores[seen] = np.where(old < 0, old * params.repetition_penalty, old / params.repetition_penalty)
        if params.presence_penalty != 0.0 or params.frequency_penalty != 0.0:
            drawn, counts = np.unique(np.asarray(output, dtype=np.int64), return_counts=True)
            scores[drawn] -= params.presence_penalty + params.frequency_penalty * counts

    def _known(self, tokens: Sequence[int]) -> IdRow:
        """The distinct ids that have a logit: embeddings may have more rows than the head."""
        ids = np.unique(np.asarray(tokens, dtype=np.int64))
        return ids[ids < self.vocab_size]


def _scored(row: LogitRow, ids: IdRow, temperature: float) -> Candidates:
    return Candidates(ids, row.scores(ids, temperature))


def _is_reshaping(params: SamplingParams) -> bool:
    return (
        params.repetition_penalty != 1.0
        or params.presence_penalty != 0.0
        or params.frequency_penalty != 0.0
        or bool(params.logit_bias)
        or params.min_tokens > 0
    )
