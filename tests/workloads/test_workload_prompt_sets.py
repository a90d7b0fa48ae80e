"""Splits, samples and hashes: the same on every machine, whatever the order."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.prompt_set import prompt_set_hash, sample, split


def prompts(num: int, workload: str = "w") -> list[Prompt]:
    return [Prompt(f"{workload}/{n}", workload, (Message("user", f"Question {n}?"),)) for n in range(num)]


@settings(max_examples=50, deadline=None)
@given(num=st.integers(0, 40), other=st.integers(0, 9), seed=st.integers(0, 2**32))
def test_halves_are_disjoint_complete_and_independent_of_order(num: int, other: int, seed: int) -> None:
    given_prompts = prompts(num) + prompts(other, "v")
    halves = split(given_prompts, seed)
    both = [*halves.choose, *halves.measure]
    assert sorted(prompt.id for prompt in both) == sorted(prompt.id for prompt in given_prompts)
    for name, size in (("w", num), ("v", other)):
        assert sum(prompt.workload == name for prompt in halves.choose) == size // 2
    shuffled = random.Random(seed).sample(given_prompts, len(given_prompts))
    again = split(shuffled, seed)
    assert (set(again.choose), set(again.measure)) == (set(halves.choose), set(halves.measure))


def test_seeds_give_other_halves() -> None:
    assert len({frozenset(prompt.id for prompt in split(prompts(24), seed).choose) for seed in range(8)}) == 8


def test_a_larger_sample_holds_the_smaller() -> None:
    small, large = sample(prompts(30), 5, 3), sample(prompts(30), 12, 3)
    assert large[:5] == small
    assert len(sample(prompts(3), 9, 0)) == 3


def test_the_split_is_the_same_on_every_machine() -> None:
    assert [prompt.id for prompt in split(prompts(6), 0).choose] == ["w/0", "w/1", "w/5"]


def test_hash_follows_what_the_model_sees() -> None:
    three = prompts(3)
    assert prompt_set_hash(three) == prompt_set_hash(three[::-1])
    changed = [replace(three[0], messages=(Message("user", "Another?"),)), *three[1:]]
    assert prompt_set_hash(changed) != prompt_set_hash(three)
    assert prompt_set_hash(three[:2]) != prompt_set_hash(three)
    assert prompt_set_hash([replace(three[0], reference="x"), *three[1:]]) == prompt_set_hash(three)
