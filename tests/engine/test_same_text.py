"""The contract on real decoders: ids and logits don't depend on whether, how or how far ahead was drafted."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from forerun.drafters.method import DraftModel
from forerun.drafters.registry import METHODS
from forerun.engine.drafting import Drafting
from forerun.models.base import Target
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts
from support.circumstances import CIRCUMSTANCES, assert_same_under, mixed, say_under
from support.faded_models import MODELS, faded_target, target_named
from support.first_layers import first_layers
from support.pairwise import Row, pairwise, whole_product
from support.same_text import Said, assert_same, say, say_plainly, without_logprobs
from support.tiny_decoder import tiny_decoder, truncated
from support.tiny_models import VOCABULARY

# The windows of mistral_sliding (19) and gemma3 (13) are shorter than most prompts; the last prompt and every block of
# 64 keys overlap. Repeated patterns give retrieval something to find.
PROMPTS = [
    (5, 5, 5),
    (7, 8, 9, 10) * 9,
    (*(11, 12, 13, 14, 15, 16, 17) * 4, 11),
    (20,),
    (*range(30, 60), *range(30, 60), *range(30, 40)),
]
BATCHES = {1: PROMPTS[4:], 5: PROMPTS}
FEEDS = {"feeds_corpus": True}

AXES: dict[str, Any] = {
    "model": MODELS,
    "drafts": [
        ("ngram", "", "chain"),
        ("suffix", "", "chain"),
        ("suffix", "", "tree"),
        ("draft_model", "first layers", "chain"),
        ("draft_model", "first layers", "tree"),
        ("draft_model", "a stranger", "chain"),
        ("draft_model", "a stranger", "tree"),
    ],
    "n": [1, 3, 7, 15],
    "temperature": [0.0, 0.8],
    "batch": [1, 5],
    "hits_prefixes": [False, True],
    "kv_dtype": ["auto", "int8", "float32"],
}


def params_of(temperature: float, logprobs: int | None = 4) -> SamplingParams:
    return SamplingParams(temperature=temperature, seed=3, max_tokens=24, ignore_eos=True, logprobs=logprobs)


@cache
def plain(model: str, temperature: float, kv_dtype: str = "auto") -> list[Said]:
    return say_plainly(target_named(model), PROMPTS, params_of(temperature), kv_dtype=kv_dtype)


def draft_model_of(kind: str, target: Target) -> DraftModel | None:
    if kind == "first layers":
        return DraftModel(first_layers(target, 2))
    if kind == "a stranger":
        return DraftModel(tiny_decoder(1, vocab_size=VOCABULARY, seed=5))
    return None


def check(row: Row) -> RoundCounts:
    """One configuration against plain decoding on one thread; its counts."""
    target = target_named(row["model"])
    method, kind, shape = row["drafts"]
    found = say_under(
        row,
        target,
        BATCHES[row["batch"]],
        params_of(row["temperature"]),
        Drafting(method, row["n"], is_tree=shape == "tree", knobs=FEEDS if method == "suffix" else {}),
        draft_model=draft_model_of(kind, target),
        kv_dtype=row["kv_dtype"],
    )
    assert_same_under(row, found, plain(row["model"], row["temperature"], row["kv_dtype"])[-row["batch"] :])
    return found.counts


def check_all(rows: list[Row]) -> None:
    """Every row, and proof that they could have failed: drafts were accepted and drafts were rejected."""
    counts = sum((check(row) for row in rows), RoundCounts())
    assert 20 < counts.accepted < counts.drafted - 20


def test_every_method_is_here() -> None:
    assert {method for method, _, _ in AXES["drafts"]} == METHODS.keys() - {"off"}
    trees = {method for method, _, shape in AXES["drafts"] if shape == "tree"}
    assert trees == {name for name, method in METHODS.items() if method.info.has_trees}


@pytest.mark.parametrize("model", AXES["model"])
def test_a_pairwise_sample_says_what_plain_decoding_says(model: str) -> None:
    check_all([row for row in pairwise(AXES | CIRCUMSTANCES) if row["model"] == model])


@pytest.mark.slow
@pytest.mark.parametrize("temperature", AXES["temperature"])
@pytest.mark.parametrize("model", AXES["model"])
def test_the_whole_product_says_what_plain_decoding_says(model: str, temperature: float) -> None:
    """Everything that is drafted, each time under other circumstances."""
    rows = [row for row in whole_product(AXES) if (row["model"], row["temperature"]) == (model, temperature)]
    check_all(mixed(rows, whole_product(CIRCUMSTANCES)))


@pytest.mark.slow
@pytest.mark.parametrize("model", AXES["model"])
def test_the_whole_product_of_circumstances_says_what_plain_decoding_says(model: str) -> None:
    """All circumstances, each time around other drafts."""
    rows = [row for row in whole_product(AXES) if row["model"] == model]
    check_all(mixed(whole_product(CIRCUMSTANCES), rows))


@pytest.mark.parametrize("temperature", AXES["temperature"])
@pytest.mark.parametrize("model", AXES["model"])
def test_plain_decoding_does_not_depend_on_neighbours_or_hits(model: str, temperature: float) -> None:
    for hits_prefixes, kv_dtype in ((False, "auto"), (True, "auto"), (True, "int8")):
        serving = {"hits_prefixes": hits_prefixes, "kv_dtype": kv_dtype, "row_budget": 23}
        found = say(target_named(model), PROMPTS, params_of(temperature), **serving)
        assert_same(found, plain(model, temperature, kv_dtype))


@pytest.mark.parametrize("model", ["llama", "llama-bf16"])
def test_keys_in_int8_are_other_numbers(model: str) -> None:
    """Else the rows above would prove nothing about them."""
    for prompt, own, other in zip(PROMPTS, plain(model, 0.0), plain(model, 0.0, "int8"), strict=True):
        assert not torch.equal(own.recorder.said_after(prompt), other.recorder.said_after(prompt))


def test_a_changed_weight_is_noticed() -> None:
    """The smallest step of one weight leaves the ids alone and must still be seen in the logits."""
    target = faded_target("llama")
    expected = [without_logprobs(said) for said in plain("llama", 0.0)]
    other = truncated(target, len(target.blocks))
    weight = target.final_norm.weight
    before = weight.clone()
    weight.data[0] = torch.nextafter(weight[0], torch.tensor(torch.inf))
    try:
        found = say(other, PROMPTS, params_of(0.0, logprobs=None))
    finally:
        weight.data.copy_(before)
    assert_same(found, expected, bitwise=False)
    with pytest.raises(AssertionError, match="other logits"):
        assert_same(found, expected)
