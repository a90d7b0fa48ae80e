"""The oracle against hand-counted rounds, a toy engine written another way, and planted leaks."""

import dataclasses
import random

import pytest

from forerun.drafters.base import DraftLimit, DraftRequest
from forerun.drafters.registry import build
from forerun.engine.drafting import Drafting
from forerun.errors import ForerunError
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.sweep.measurements import PromptOutcome
from forerun.sweep.oracle import Recording, find_leaks, replay, replay_all, require_no_leak, verify_against
from forerun.types import Draft, PositionCounts, RoundCounts, Weights

SAMPLER = KeyedSampler(SamplingParams(), seed=1, choice=0, prompt=[1], eos_token_ids=(), vocab_size=50)


def recording(prompt, output, max_tokens=None, prompt_id="p"):
    return Recording(prompt_id, tuple(prompt), tuple(output), max_tokens or len(output), SAMPLER)


def ngram():
    return build("ngram", {"min_n": 1, "max_n": 3})


def suffix():
    return build("suffix")


def test_rounds_counted_by_hand():
    # Prompt 1 2 3 4 5, output 1 (prefill) 2 3 9 4 5 6, N = 3, longest match within 3, latest occurrence.
    # After "... 5 1": 1 was followed by 2 3 4. Target says 2 3 9: two accepted, three emitted.
    # After "... 2 3 9": 9 is new: no draft, 4 emitted. After 4: 5 1 2 would follow, but two tokens are left and the
    # last is the target's own: 5 drafted and accepted, then the 6.
    found = replay(ngram, recording([1, 2, 3, 4, 5], [1, 2, 3, 9, 4, 5, 6]), Drafting("ngram", 3))
    assert found == RoundCounts(
        3,
        1,
        4,
        3,
        6,
        (PositionCounts(2, 2, 2), PositionCounts(1, 1, 1), PositionCounts(1, 1, 0)),
    )


def test_verification_stops_with_the_recording():
    assert verify_against(Draft.chain([5, 6, 7]), [5, 6, 8]) == (2, 3)
    assert verify_against(Draft.chain([5, 6, 7]), [5]) == (1, 1)
    assert verify_against(Draft(), [5, 6]) == (0, 1)
    # A tree: anchor -> 5 and 6; 6 -> 7 and 8; 8 -> 9.
    tree = Draft((5, 6, 7, 8, 9), (0, 0, 2, 2, 4))
    assert verify_against(tree, [6, 8, 9, 1]) == (3, 4)
    assert verify_against(tree, [6, 7, 9]) == (2, 3)
    assert verify_against(tree, [3]) == (0, 1)


class ToyEngine:
    """Knows the text as a function of the position, drafts, verifies and cuts token by token."""

    def __init__(self, drafter, text, end):
        self.drafter, self.text, self.end = drafter, text, end

    def run(self, prompt, drafting, max_tokens):
        state = self.drafter.begin(_request(prompt))
        self.drafter.observe(state, prompt, None)
        output = [self.text(0)]
        self.drafter.observe(state, output, None)
        counts = RoundCounts()
        while output[-1] != self.end and len(output) < max_tokens:
            limit = drafting.limit(max_tokens - len(output), 99)
            draft = self.drafter.propose([state], [limit])[0] if limit.num_tokens else Draft()
            new, row, accepted = [], 0, 0
            while True:
                token = self.text(len(output) + len(new))
                new.append(token)
                step = [r for r in draft.children()[row] if draft.tokens[r - 1] == token]
                if not step:
                    break
                row, accepted = step[0], accepted + 1
                if token == self.end:
                    break
            new = new[: max_tokens - len(output)]
            counts += RoundCounts.of_round(draft, accepted, len(new))
            output += new
            self.drafter.observe(state, new, None)
        return output, counts


def _request(prompt):
    return DraftRequest(0, tuple(prompt), SAMPLER)


@pytest.mark.parametrize("seed", range(12))
def test_counts_are_those_of_an_engine(seed):
    rng = random.Random(seed)
    block = [rng.randrange(8) for _ in range(12)]
    stream = [token if rng.random() > 0.15 else rng.randrange(9) for token in block * 6]
    stream[rng.randrange(20, 72)] = 9
    prompt, max_tokens = [rng.randrange(9) for _ in range(10)] + block, rng.choice([15, 40, 80])
    draftings = [Drafting("m", n) for n in (1, 3, 7, 15)]
    for factory in (ngram, suffix, lambda: build("off")):
        for drafting in draftings:
            output, counts = ToyEngine(factory(), stream.__getitem__, end=9).run(prompt, drafting, max_tokens)
            assert replay(factory, recording(prompt, output, max_tokens), drafting) == counts
        together = replay_all(factory, recording(prompt, output, max_tokens), draftings)
        assert together == [replay(factory, recording(prompt, output, max_tokens), one) for one in draftings]
    trees = [Drafting("suffix", n, is_tree=True) for n in (3, 7)]
    for drafting in trees:
        output, counts = ToyEngine(suffix(), stream.__getitem__, end=9).run(prompt, drafting, max_tokens)
        assert replay(suffix, recording(prompt, output, max_tokens), drafting) == counts


def test_every_token_is_emitted_whatever_is_drafted():
    text = recording([1, 2, 1, 2], [1, 2, 1, 2, 1, 2, 1, 2])
    for n in (1, 3, 7):
        assert replay(ngram, text, Drafting("ngram", n)).emitted == 7
    assert replay(lambda: build("off"), text, Drafting()) == RoundCounts(7, 7, 0, 0, 7)
    assert replay(ngram, recording([1], [2]), Drafting("ngram", 3)) == RoundCounts()


def test_a_method_with_weights_is_refused():
    class Neural(type(ngram())):
        pass

    Neural.info = dataclasses.replace(Neural.info, weights=Weights.SEPARATE)
    with pytest.raises(ForerunError, match="without weights"):
        replay(lambda: Neural(ngram().config), recording([1], [2, 3]), Drafting("ngram", 3))


def outcome(prompt_id, counts):
    return PromptOutcome(prompt_id, 1.0, (0.1, 0.2), counts, "hash")


def test_a_corpus_warmed_by_the_other_arm_is_noticed():
    rng = random.Random(3)
    texts = [
        recording([rng.randrange(40) for _ in range(8)], [rng.randrange(40) for _ in range(30)], prompt_id=f"p{i}")
        for i in range(4)
    ]
    drafting = Drafting("suffix", 7)
    cold = {text.prompt_id: replay(suffix, text, drafting) for text in texts}
    honest = [outcome(text.prompt_id, replay(suffix, text, drafting)) for text in texts]
    assert find_leaks(honest, cold) == []
    require_no_leak(honest, cold)
    # Planted: one drafter for all arms, which learned each answer from the arm before.
    shared = suffix()
    shared.ingest([text.output for text in texts])
    leaky = [outcome(text.prompt_id, replay(lambda: shared, text, drafting)) for text in texts]
    leaks = find_leaks(leaky, cold)
    assert {leak.prompt_id for leak in leaks} == set(cold)
    assert all(leak.found.accepted > leak.expected.accepted for leak in leaks)
    with pytest.raises(ForerunError, match="another run fed it"):
        require_no_leak(leaky, cold)


def test_a_named_warm_corpus_is_no_leak():
    text = recording([1, 2, 3], [4, 5, 6, 7, 8, 9, 10])

    def warm():
        drafter = suffix()
        drafter.ingest([[3, 4, 5, 6, 20]])
        return drafter

    expected = {"p": replay(warm, text, Drafting("suffix", 3))}
    assert expected["p"].accepted > replay(suffix, text, Drafting("suffix", 3)).accepted
    require_no_leak([outcome("p", expected["p"]), outcome("not replayed", RoundCounts())], expected)


def test_the_limit_leaves_room_for_the_targets_own_token():
    assert Drafting("ngram", 7).limit(3, 99) == DraftLimit(2, 2)
    assert Drafting("ngram", 7).limit(1, 99) == DraftLimit(0, 0)
