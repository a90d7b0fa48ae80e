"""What is reported about one emitted token."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log-probabilities of an emitted token and of the likeliest tokens, best first, as (id, log-probability).

    They are those of the target's raw row: before penalties, bias, temperature and cuts, as most engines report them.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
