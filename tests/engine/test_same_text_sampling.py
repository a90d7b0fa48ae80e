"""Every sampling parameter, and every way for a text to end, under drafting: what plain decoding gives."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise as neighbours

import pytest

from forerun.conditions import Artifact
from forerun.drafters.method import DraftModel
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts
from support import scripted_drafters as scripted
from support.faded_models import faded_target
from support.same_text import Prompt, Said, assert_same, say
from support.tiny_decoder import truncated
from support.tiny_models import VOCABULARY
from support.word_tokenizer import word_tokenizer

PROMPTS: list[Prompt] = [(5, 5, 5), (7, 8, 9, 10) * 9, (*(11, 12, 13, 14, 15, 16, 17) * 4, 11), (20,)]
LENGTH = 26
SYLLABLE = 3  # letters
EOS = 2
GREEDY = SamplingParams(seed=3, max_tokens=LENGTH, ignore_eos=True)
SAMPLED = replace(GREEDY, temperature=0.8)

DRAFTINGS = {
    "ngram": Drafting("ngram", 3, knobs={"min_n": 1}),
    "suffix tree": Drafting("suffix", 7, is_tree=True, knobs={"feeds_corpus": True}),
    "draft model": Drafting("draft_model", 7),
    "draft model tree": Drafting("draft_model", 3, is_tree=True),
}


@cache
def model() -> LoadedTarget:
    return LoadedTarget(faded_target("qwen2"), word_tokenizer(VOCABULARY, EOS), Artifact())


def draft(drafting: Drafting, params: SamplingParams, *, hits_prefixes: bool = False) -> Said:
    target = faded_target("qwen2")
    draft_model = DraftModel(truncated(target, 2)) if drafting.method == "draft_model" else None
    return say(model(), PROMPTS, params, drafting, draft_model=draft_model, hits_prefixes=hits_prefixes)


@cache
def plain(params: SamplingParams) -> Said:
    """Plain decoding; that it does not depend on the batch is shown elsewhere."""
    return say(model(), PROMPTS, params)


def texts(params: SamplingParams) -> list[tuple[int, ...]]:
    return [completion.token_ids for completion in plain(params).completions]


def common_token(params: SamplingParams) -> int:
    """The token that the most texts hold, not at their beginning."""
    return Counter(token for text in texts(params) for token in set(text[4:]) - set(text[:4])).most_common(1)[0][0]


@cache
def crossing_stops(params: SamplingParams, first: int) -> tuple[str, ...]:
    """Strings of plain decoding's texts, new at character ``first`` or later, that lie across three tokens each."""
    stops = []
    for completion in plain(params).completions:
        text = completion.text
        # Syllables have three letters. A text may be a loop, where nothing is new.
        candidates = [text[at : at + 5] for at in range(first, len(text) - 12, SYLLABLE)]
        stops += [stop for stop in candidates if text.find(stop) >= first][:1]
    return tuple(dict.fromkeys(stops))


BENDS = [
    "repetition penalty",
    "presence and frequency",
    "bias and ban",
    "end tokens",
    "min tokens",
    "stop strings",
    "stop strings from a minimum on",
    "all at once",
]


def bent(params: SamplingParams) -> dict[str, SamplingParams]:
    """What can be asked for besides a temperature, each strong enough to change what is said."""
    stop = common_token(params)
    return {
        "repetition penalty": replace(params, repetition_penalty=1.4),
        "presence and frequency": replace(params, presence_penalty=2.0, frequency_penalty=1.0),
        "bias and ban": replace(params, logit_bias=((stop, -math.inf), (31, 4.0))),
        "end tokens": replace(params, ignore_eos=False, stop_token_ids=(stop,), logit_bias=((EOS, 4.0),)),
        "min tokens": replace(params, stop_token_ids=(stop, *texts(params)[0][:2]), min_tokens=11),
        "stop strings": replace(params, stop=crossing_stops(params, 17)),
        "stop strings from a minimum on": replace(
            params, stop=crossing_stops(params, 17) + crossing_stops(params, 41), min_tokens=13
        ),
        "all at once": replace(
            params, repetition_penalty=1.2, presence_penalty=0.4, frequency_penalty=0.3, logit_bias=((31, 2.0),),
            stop=crossing_stops(params, 17), stop_token_ids=(stop,), min_tokens=9, n=2, logprobs=2,
        ),
    }  # fmt: skip


CUTS = {
    "top-k": replace(SAMPLED, temperature=1.3, top_k=4),
    "top-p": replace(SAMPLED, temperature=1.3, top_p=0.7),
    "min-p": replace(SAMPLED, temperature=1.3, min_p=0.15),
}


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("case", BENDS)
def test_parameters_act_the_same_under_drafting(params: SamplingParams, case: str) -> None:
    check(bent(params)[case], params)


@pytest.mark.parametrize("params", CUTS.values(), ids=CUTS)
def test_cuts_act_the_same_under_drafting(params: SamplingParams) -> None:
    check(params, replace(SAMPLED, temperature=params.temperature))


def check(params: SamplingParams, without: SamplingParams) -> None:
    """All drafts under ``params``, which must change what is said ``without`` them."""
    assert texts(params) != texts(without)
    counts = RoundCounts()
    for name, drafting in DRAFTINGS.items():
        found = draft(drafting, params, hits_prefixes=name == "suffix tree")
        assert_same(found, [plain(params)])
        counts += found.counts
    assert 0 < counts.accepted < counts.drafted


@pytest.mark.parametrize("drafting", DRAFTINGS.values(), ids=DRAFTINGS)
@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_logprobs_and_choices_are_the_same(params: SamplingParams, drafting: Drafting) -> None:
    asked = replace(params, n=3, logprobs=4)
    found = draft(drafting, asked)
    assert_same(found, [plain(asked)])
    assert all(len(one.logprobs) == LENGTH and len(one.logprobs[0].top) == 4 for one in found.completions)
    assert [one.choice for one in found.completions] == [0, 1, 2] * len(PROMPTS)
    # One seed serves all choices: they differ where there is noise and agree where there is none.
    num_texts = len({(prompt, one.token_ids) for prompt, one in zip(found.prompts, found.completions, strict=True)})
    assert num_texts == len(PROMPTS) if params.temperature == 0 else num_texts > 2 * len(PROMPTS)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_texts_end_where_they_should(params: SamplingParams) -> None:
    """Stops are looked for in the text itself, not in what the engine says of it."""
    num_passed = 0
    for name in ("stop strings", "stop strings from a minimum on"):
        asked = bent(params)[name]
        reasons = Counter(completion.finish_reason for completion in plain(asked).completions)
        assert reasons["stop"] >= 2
        for completion, whole in zip(plain(asked).completions, plain(params).completions, strict=True):
            text = whole.text
            # The minimum counts tokens; a string that was complete before it is past.
            ends = [at + len(stop) for stop in asked.stop for at in range(len(text)) if text.startswith(stop, at)]
            num_ends = len(ends)
            ends = [end for end in ends if -(-end // SYLLABLE) >= asked.min_tokens]
            num_passed += num_ends - len(ends)
            if ends:
                assert len(completion.token_ids) == -(-min(ends) // SYLLABLE)
                assert completion.finish_reason == "stop"
            assert completion.token_ids == whole.token_ids[: len(completion.token_ids)]
    assert num_passed, "a stop string below the minimum was passed over"


def oracle_of(params: SamplingParams) -> scripted.ScriptedDrafter:
    return scripted.oracle({(prompt, 0): text for prompt, text in zip(PROMPTS, texts(params), strict=True)})


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_an_end_token_inside_a_block_cuts_it(params: SamplingParams) -> None:
    """The oracle drafts past the end; what lies behind is dropped, and the counts say what was given out."""
    for prompt, text in zip(PROMPTS, texts(params), strict=True):
        for at in [index for index, token in enumerate(text) if token not in text[:index]]:
            asked = replace(params, stop_token_ids=(text[at],))
            engine = Engine(model(), Drafting("scripted", 15), drafter=oracle_of(params), reuses_prefixes=False)
            events = list(engine.stream(prompt, asked))
            request = events[-1].request
            assert tuple(request.output) == text[: at + 1]
            assert request.finish_reason is not None and request.finish_reason.value == "stop"
            last = events[-1]
            if 0 < at % 16 < 15 and at < LENGTH - 2:
                assert last.draft.tokens[: len(last.tokens)] == last.tokens
                assert len(last.draft) > len(last.tokens), "the draft went on behind the end"
            assert request.counts.emitted == at
            assert engine.cache.pool.num_held == 0


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("max_tokens", [1, 2, 16, 17, 18, 25])
def test_a_length_inside_a_block_cuts_it(params: SamplingParams, max_tokens: int) -> None:
    asked = replace(params, max_tokens=max_tokens)
    engine = Engine(model(), Drafting("scripted", 15), drafter=oracle_of(params), reuses_prefixes=False)
    completions = engine.generate(PROMPTS, asked)
    assert [one.token_ids for one in completions] == [text[:max_tokens] for text in texts(params)]
    assert {one.finish_reason for one in completions} == {"length"}
    for drafting in DRAFTINGS.values():
        assert_same(draft(drafting, asked), [plain(asked)])


def test_the_tokenizer_lets_strings_cross_tokens() -> None:
    completion = plain(GREEDY).completions[1]
    tokenizer = model().tokenizer
    assert completion.text == "".join(tokenizer.decode([token]) for token in completion.token_ids)
    borders = [f"{one}{other}" for one, other in neighbours(tokenizer.decode([t]) for t in completion.token_ids)]
    assert all(len(border) == 6 for border in borders)
