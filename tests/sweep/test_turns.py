"""Conversations: every turn runs behind the model's own answers, in both arms and in what is recorded to choose by."""

from dataclasses import replace

import pytest

from forerun.engine.drafting import Drafting
from forerun.errors import ForerunError
from forerun.sampling.params import SamplingParams
from forerun.sweep.turns import run_conversations
from forerun.workloads.checkers.contains import ContainsChecker
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.workload import Workload
from support.fake_backend import Economics, FakeBackend
from support.simulated_tune import plan_of, tune
from support.toy_backend import backend_of
from support.toy_target import ToyTarget

VOCAB = 13
PARAMS = SamplingParams(max_tokens=6, ignore_eos=True)
ECONOMICS = Economics(d=lambda m, n, b: 0.001 * n, acceptance=lambda w, i: 0.9)


def conversation(id, *turns):
    first, *later = turns
    return Prompt(id, "talk", (Message("user", first),), later_turns=tuple(later), checker=ContainsChecker(("7",)))


def test_each_turn_follows_the_answers_before_it():
    backend = backend_of(ToyTarget(VOCAB))
    prompts = [conversation("a", "1 2 3", "4 5", "6"), conversation("b", "7 8"), conversation("c", "9", "1 1")]
    done = run_conversations(backend, prompts, Drafting("ngram", 3), PARAMS, concurrency=2)
    assert [prompt.id for prompt in done.prompts] == ["a", "b", "c", "a#2", "c#2", "a#3"]
    assert [request.prompt_id for request in done.record.requests] == [prompt.id for prompt in done.prompts]
    found = dict(zip((prompt.id for prompt in done.prompts), done.record.requests, strict=True))
    assert found["a#2"].prompt_ids == (1, 2, 3, *found["a"].token_ids, 4, 5)
    assert found["a#3"].prompt_ids == (*found["a#2"].prompt_ids, *found["a#2"].token_ids, 6)
    alone = backend.run(done.prompts[-1:], Drafting(), PARAMS, concurrency=1)
    assert alone.requests[0].token_ids == found["a#3"].token_ids
    assert done.record.seconds > 0 and done.record.peak_memory > 0
    assert [prompt.checker is None for prompt in done.prompts] == [False, False, False, True, True, True]
    assert prompts[0].later_turns == ("4 5", "6"), "prompts are values"


def test_a_pair_runs_whole_conversations_in_both_arms(tmp_path):
    prompts = tuple(conversation(f"talk-{index}", "1", "2") for index in range(24))
    backend = FakeBackend(economics=ECONOMICS)
    result = tune(tmp_path, plan_of(n=[3]), backend, [Workload("talk", prompts)])
    (cell,) = result.cells
    assert cell.interval is not None and not cell.differing_prompts
    assert not any("turn" in gap.what for gap in result.gaps)
    pairs = [call for call in backend.calls if call.params.max_tokens == 48 and len(call.prompts) == 1]
    seconds = [call for call in pairs if call.prompts[0].endswith("#2")]
    assert len(seconds) * 2 == len(pairs) == 4 * cell.num_pairs
    recorded = [call.prompts for call in backend.calls if len(call.prompts) > 1 and call.drafting.method == "off"]
    assert len(recorded) == 2 and recorded[1] == tuple(f"{prompt}#2" for prompt in recorded[0])
    assert cell.figures.num_checked == cell.num_pairs, "the first answers"
    assert cell.predicted_ratio == pytest.approx(cell.interval.median, rel=0.1)


def test_a_retrieval_arm_is_held_to_its_cold_replay_in_every_turn(tmp_path):
    prompts = tuple(Prompt(f"copy-{index}", "copy", (Message("user", "1"),), later_turns=("2",)) for index in range(24))
    plan = plan_of(methods=["suffix"], drafters=[], n=[3])
    (cell,) = tune(tmp_path, plan, FakeBackend(economics=ECONOMICS), [Workload("copy", prompts)]).cells
    assert cell.interval is not None and cell.figures.counts.accepted > 0


def test_a_conversation_that_cannot_fit_is_refused_before_anything_is_measured(tmp_path):
    backend = FakeBackend()
    backend.probe.traits = replace(backend.probe.traits, max_context=120)
    with pytest.raises(ForerunError, match=r"talk with 136 tokens in 3 turns"):
        tune(tmp_path, plan_of(max_tokens=48), backend, [Workload("talk", (conversation("talk", "1", "2", "3"),))])
    assert not backend.calls


def test_raw_text_has_no_turns():
    with pytest.raises(ValueError, match="later turns and no messages"):
        Prompt("x", "y", text="z", later_turns=("w",))
