"""Contradictory and out-of-range sampling values are refused, each in one line."""

import math
from typing import Any

import pytest

from forerun.errors import ForerunError
from forerun.sampling.params import SamplingParams

REFUSED: list[dict[str, Any]] = [
    {"temperature": -0.1},
    {"temperature": math.nan},
    {"temperature": math.inf},
    {"top_k": -1},
    {"top_p": 0.0},
    {"top_p": 1.01},
    {"top_p": math.nan},
    {"min_p": -0.1},
    {"min_p": 1.5},
    {"min_p": math.nan},
    {"repetition_penalty": 0.0},
    {"repetition_penalty": math.nan},
    {"repetition_penalty": math.inf},
    {"repetition_penalty": 1e-31},
    {"repetition_penalty": 1e31},
    {"presence_penalty": -1e31},
    {"frequency_penalty": 1e308},
    {"logit_bias": ((1, 1e308),)},
    {"presence_penalty": math.inf},
    {"presence_penalty": math.nan},
    {"frequency_penalty": -math.inf},
    {"logit_bias": ((-1, 1.0),)},
    {"logit_bias": ((1, math.nan),)},
    {"logit_bias": ((1, math.inf),)},
    {"logit_bias": ((1, 1.0), (1, 2.0))},
    {"min_tokens": -1},
    {"max_tokens": 0},
    {"min_tokens": 11, "max_tokens": 10},
    {"n": 0},
    {"logprobs": -1},
    {"seed": -1},
    {"seed": 2**64},
    {"stop": ("end", "")},
    {"stop_token_ids": (3, -2)},
]


@pytest.mark.parametrize("values", REFUSED, ids=str)
def test_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ForerunError) as caught:
        SamplingParams(**values)
    assert "\n" not in str(caught.value)
    assert next(iter(values)) in caught.value.expected


def test_limits_themselves_are_allowed() -> None:
    SamplingParams()
    SamplingParams(temperature=1e-300, top_p=1.0, min_p=1.0, min_tokens=10, max_tokens=10, seed=2**64 - 1, logprobs=0)
    SamplingParams(repetition_penalty=1e30, presence_penalty=-1e30, frequency_penalty=1e30, logit_bias=((1, 1e30),))
    SamplingParams(logit_bias=((1, -math.inf),), stop_token_ids=(0,), top_p=1e-9, n=1)
