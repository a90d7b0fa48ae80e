"""The target that costs nothing says what the recorded one said, whatever is drafted."""

import pytest
from benchmarks.replayed_target import ReplayedTarget

from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.sampling.params import SamplingParams
from support.toy_target import ToyTarget

PROMPT = [1, 2, 3, 4] * 5


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_replayed_text_is_the_recorded_one(temperature: float) -> None:
    target = ToyTarget(13, order=2)
    params = SamplingParams(max_tokens=60, ignore_eos=True, temperature=temperature, seed=4)
    replayed = ReplayedTarget(target, len(PROMPT) + 80)

    def run(drafting: Drafting, source: ToyTarget | ReplayedTarget) -> tuple[tuple[int, ...], object]:
        # A row budget below the prompt's length: passes that want no logits are part of a recording.
        completion = Engine(source, drafting, row_budget=17).generate(PROMPT, params)[0]
        return completion.token_ids, completion.counts

    recorded = run(Drafting(), replayed)
    assert recorded == run(Drafting(), target)
    replayed.is_recording = False
    num_passes = target.num_passes
    assert run(Drafting(), replayed) == recorded
    drafted = run(Drafting("ngram", 5), replayed)
    assert target.num_passes == num_passes
    assert drafted == run(Drafting("ngram", 5), target)
    assert drafted[0] == recorded[0] and drafted[1] != recorded[1]
