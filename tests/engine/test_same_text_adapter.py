"""The contract behind the adapter: experts, shared keys and values, recurrent hybrids."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from forerun.drafters.method import DraftModel
from forerun.engine.drafting import Drafting
from forerun.models.adapter.adapter_target import AdapterTarget
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts
from support.adapted_models import ALL, BASE, NOT_EXACT, RECURRENT, adapted
from support.circumstances import CIRCUMSTANCES, assert_same_under, mixed, say_under
from support.pairwise import Row, pairwise, whole_product
from support.same_text import Said, say_plainly
from support.tiny_decoder import tiny_decoder

PROMPTS = [(5, 5, 5), (7, 8, 9, 10) * 9, (20,), (*range(30, 50), *range(30, 50)), (11, 12, 13) * 6]
BATCHES = {1: PROMPTS[3:4], 5: PROMPTS}
QUICK = ["mixtral", "jetmoe", "gemma4", "qwen3_next", "lfm2"]

AXES: dict[str, Any] = {
    "drafts": [
        ("ngram", "", "chain"),
        ("suffix", "", "chain"),
        ("suffix", "", "tree"),
        ("draft_model", "itself", "chain"),
        ("draft_model", "itself", "tree"),
        ("draft_model", "a stranger", "tree"),
    ],
    "n": [1, 3, 7, 15],
    "temperature": [0.0, 0.8],
    "batch": [1, 5],
    "hits_prefixes": [False, True],
    "kv_dtype": ["auto", "int8"],
}


@cache
def target_of(name: str) -> AdapterTarget:
    return adapted(name)


def params_of(temperature: float) -> SamplingParams:
    return SamplingParams(temperature=temperature, seed=3, max_tokens=14, ignore_eos=True, logprobs=4)


@cache
def plain(name: str, temperature: float, kv_dtype: str) -> list[Said]:
    return say_plainly(target_of(name), PROMPTS, params_of(temperature), kv_dtype=kv_dtype)


def axes_of(name: str) -> dict[str, Any]:
    """Recurrent state can't branch."""
    if name not in RECURRENT:
        return AXES
    chains = [drafts for drafts in AXES["drafts"] if drafts[2] == "chain"]
    return AXES | {"drafts": [*chains, ("draft_model", "a stranger", "chain")]}


def draft_model_of(kind: str, target: AdapterTarget) -> DraftModel | None:
    if kind == "itself":
        return DraftModel(target)
    return DraftModel(tiny_decoder(1, vocab_size=BASE["vocab_size"], seed=5)) if kind else None


def check(name: str, row: Row) -> RoundCounts:
    target = target_of(name)
    method, kind, shape = row["drafts"]
    found = say_under(
        row,
        target,
        BATCHES[row["batch"]],
        params_of(row["temperature"]),
        Drafting(
            method,
            row["n"],
            is_tree=shape == "tree",
            knobs={"feeds_corpus": True} if method == "suffix" else {},
        ),
        draft_model=draft_model_of(kind, target),
        kv_dtype=row["kv_dtype"],
    )
    expected = plain(name, row["temperature"], row["kv_dtype"])
    expected = expected if row["batch"] == 5 else expected[3:4]
    assert_same_under(row, found, expected, bitwise=target.traits.is_bit_exact)
    return found.counts


def check_all(name: str, rows: list[Row]) -> None:
    counts = sum((check(name, row) for row in rows), RoundCounts())
    assert 10 < counts.accepted < counts.drafted - 10


def test_the_models_claim_what_is_checked() -> None:
    assert {name for name in QUICK if not target_of(name).traits.is_bit_exact} == NOT_EXACT & set(QUICK)
    assert {name for name in QUICK if target_of(name).traits.has_recurrent_state} == RECURRENT.keys() & set(QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_an_adapted_model_says_what_plain_decoding_says(name: str) -> None:
    check_all(name, pairwise(axes_of(name) | CIRCUMSTANCES)[::3])


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_adapted_model_says_what_plain_decoding_says(name: str) -> None:
    check_all(name, pairwise(axes_of(name) | CIRCUMSTANCES))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen3_moe", "gemma3n", "granite_hybrid"])
def test_the_whole_product_of_one_of_each_kind(name: str) -> None:
    """Everything that is drafted, each time under other circumstances."""
    check_all(name, mixed(whole_product(axes_of(name)), whole_product(CIRCUMSTANCES)))
