"""A corpus named by a knob, through a whole engine: the same text in fewer rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.engine.request import Request
from forerun.errors import ForerunError
from forerun.sampling.params import SamplingParams
from support.toy_target import ToyTarget

VOCAB = 200
PARAMS = SamplingParams(temperature=0.8, seed=5, max_tokens=60, ignore_eos=True)
PROMPT = [3, 1, 4, 1, 5]


def answer(engine: Engine, prompt: list[int] = PROMPT, session: str = "") -> Request:
    (request,) = engine.submit(prompt, PARAMS, session=session)
    while not request.is_finished:
        engine.step()
    return request


def engine_with(method: str, **knobs: Any) -> Engine:
    n = 0 if method == "off" else 7
    return Engine(ToyTarget(VOCAB, order=2), Drafting(method, n, knobs=knobs))


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_a_corpus_saves_rounds_and_changes_nothing(tmp_path: Path, method: str) -> None:
    plain = answer(engine_with("off"))
    np.save(tmp_path / "answer.npy", np.array(plain.output))
    cold = answer(engine_with(method))
    warm = answer(engine_with(method, corpus=str(tmp_path / "answer.npy")))
    assert list(plain.output) == list(cold.output) == list(warm.output)
    assert warm.counts.accepted > cold.counts.accepted + 20


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_a_session_learns_from_its_own_answers_alone(method: str) -> None:
    engine = engine_with(method, feeds_corpus=True)
    first, stranger, second = (answer(engine, session=session) for session in ("a", "b", "a"))
    assert list(first.output) == list(stranger.output) == list(second.output)
    assert first.counts == stranger.counts
    assert second.counts.accepted > first.counts.accepted + 20


def test_ids_that_the_target_lacks_are_refused_before_anything_runs(tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", np.array([1, VOCAB]))
    with pytest.raises(ForerunError, match=f"token ids under {VOCAB}"):
        engine_with("suffix", corpus=str(tmp_path / "other.npy"))
