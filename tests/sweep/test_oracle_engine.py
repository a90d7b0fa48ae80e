"""The oracle's counts are the shipped engine's, and an engine that was fed another arm's text gives itself away."""

import dataclasses

import pytest

from forerun.drafters.registry import build
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.sweep.measurements import PromptOutcome
from forerun.sweep.oracle import Recording, find_leaks, replay, replay_all
from support.toy_target import ToyTarget

VOCAB = 7
PROMPTS = [[1, 2, 3], [4] * 20, [5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2], [2], [3, 1] * 10]
PARAMS = {
    "length": SamplingParams(max_tokens=41, ignore_eos=True),
    "end token": SamplingParams(max_tokens=60),
    "sampled": SamplingParams(temperature=0.4, seed=7, max_tokens=41),
    "stop id": SamplingParams(temperature=0.7, seed=11, max_tokens=60, stop_token_ids=(3,), min_tokens=9),
    "penalties": SamplingParams(temperature=0.9, seed=3, max_tokens=33, top_k=3, repetition_penalty=1.3),
    "two": SamplingParams(max_tokens=2, ignore_eos=True),
}


def engine(drafting=None, **more):
    return Engine(ToyTarget(VOCAB, order=1), drafting, reuses_prefixes=False, **more)


def recordings(params):
    completions = engine().generate(PROMPTS, params)
    sampler = KeyedSampler(params, seed=1, choice=0, prompt=[1], eos_token_ids=(), vocab_size=VOCAB)
    return [
        Recording(f"p{index}", tuple(prompt), completion.token_ids, params.max_tokens, sampler)
        for index, (prompt, completion) in enumerate(zip(PROMPTS, completions, strict=True))
    ]


def drafter_of(drafting):
    return lambda: build(drafting.method, drafting.knobs)


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
@pytest.mark.parametrize(("method", "is_tree"), [("ngram", False), ("suffix", False), ("suffix", True)])
def test_every_count_is_the_engines(params, method, is_tree):
    recorded = recordings(params)
    draftings = [Drafting(method, n, is_tree=is_tree) for n in (1, 3, 7, 15)]
    expected = [replay_all(drafter_of(draftings[0]), recording, draftings) for recording in recorded]
    for index, drafting in enumerate(draftings):
        together = engine(drafting).generate(PROMPTS, params)
        alone = [engine(drafting).generate([prompt], params)[0] for prompt in PROMPTS]
        for recording, all_counts, *completions in zip(recorded, expected, together, alone, strict=True):
            for completion in completions:
                assert completion.token_ids == recording.output
                assert completion.counts == all_counts[index]
            assert replay(drafter_of(drafting), recording, drafting) == all_counts[index]


def test_some_drafts_were_accepted_and_some_rejected():
    # Without this, equal counts would prove little.
    drafting = Drafting("suffix", 7)
    texts = [one for params in PARAMS.values() for one in recordings(params)]
    counts = [replay(drafter_of(drafting), one, drafting) for one in texts]
    assert 20 < sum(one.accepted for one in counts) < sum(one.drafted for one in counts) - 20


def outcomes(completions):
    return [
        PromptOutcome(f"p{index}", 1.0, (0.1,), completion.counts, "hash")
        for index, completion in enumerate(completions)
    ]


def test_an_engine_that_learned_the_texts_from_an_earlier_arm_is_caught():
    params, drafting = SamplingParams(temperature=1.0, seed=5, max_tokens=40, ignore_eos=True), Drafting("suffix", 7)
    cold = {one.prompt_id: replay(drafter_of(drafting), one, drafting) for one in recordings(params)}
    assert find_leaks(outcomes(engine(drafting).generate(PROMPTS, params)), cold) == []
    leaky = engine(dataclasses.replace(drafting, knobs={"feeds_corpus": True}))
    leaky.generate(PROMPTS, params)
    leaks = find_leaks(outcomes(leaky.generate(PROMPTS, params)), cold)
    assert len(leaks) == len(PROMPTS)
    assert all(leak.found.accepted > leak.expected.accepted for leak in leaks)
