"""Engine: one text whatever is drafted, counts that add up, nothing left behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch

from forerun import ratios
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.engine.request import Completion, FinishReason
from forerun.errors import ForerunError
from forerun.sampling.params import SamplingParams
from support import scripted_drafters as scripted
from support.scripted_drafters import ScriptedDrafter, Texts
from support.toy_target import ToyTarget

VOCAB = 13
PROMPTS = [[1, 2, 3], [4] * 37, [5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [2], [3, 1] * 10]


def texts_of(prompts: Sequence[Sequence[int]], params: SamplingParams, target: ToyTarget) -> Texts:
    completions = Engine(target, reuses_prefixes=False).generate(prompts, params)
    keys = [(tuple(prompt), choice) for prompt in prompts for choice in range(params.n)]
    return dict(zip(keys, (c.token_ids for c in completions), strict=True))


def drafting(n: int, *, is_tree: bool = False) -> Drafting:
    return Drafting("scripted", n, is_tree=is_tree)


def make_engine(drafter: ScriptedDrafter, n: int, target: ToyTarget, *, is_tree: bool = False, **kwargs) -> Engine:
    return Engine(target, drafting(n, is_tree=is_tree), drafter=drafter, **kwargs)


def assert_nothing_left(engine: Engine, drafter: ScriptedDrafter) -> None:
    assert engine.cache.pool.num_held == 0
    assert not engine.cache.store.states
    assert all(state.is_over for state in drafter.states)
    assert not engine.has_work


def drafters(texts: Texts) -> dict[str, ScriptedDrafter]:
    return {
        "oracle": scripted.oracle(texts),
        "wrong": scripted.wrong(texts, VOCAB),
        "half": scripted.half_right(texts, VOCAB),
        "empty": scripted.empty(),
        "bushy": scripted.bushy(texts, VOCAB),
    }


PARAMS = {
    "greedy": SamplingParams(max_tokens=41, ignore_eos=True),
    "sampled": SamplingParams(temperature=0.8, seed=7, max_tokens=41),
    "processed": SamplingParams(
        temperature=0.9, seed=3, max_tokens=33, top_k=6, top_p=0.9, min_p=0.02, repetition_penalty=1.3,
        presence_penalty=0.4, frequency_penalty=0.3, logit_bias=((2, 1.5), (5, -3.0)), min_tokens=9,
    ),
    "stop": SamplingParams(temperature=0.7, seed=11, max_tokens=60, stop_token_ids=(3,)),
    "choices": SamplingParams(temperature=1.0, seed=5, max_tokens=17, n=3),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["oracle", "wrong", "half", "empty", "bushy"])
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
@pytest.mark.parametrize("is_recurrent", [False, True], ids=["attention", "recurrent"])
def test_text_does_not_depend_on_the_drafter(kind: str, params: SamplingParams, is_recurrent: bool) -> None:
    if is_recurrent and kind == "bushy":
        pytest.skip("recurrent targets take chains only")
    plain_target = ToyTarget(VOCAB, order=0)
    texts = texts_of(PROMPTS, params, plain_target)
    for n, budget, prompts in itertools.product((1, 3, 15), (64, 256), (PROMPTS, PROMPTS[1:2])):
        target = ToyTarget(VOCAB, order=0, is_recurrent=is_recurrent)
        drafter = drafters(texts)[kind]
        engine = make_engine(drafter, n, target, is_tree=kind == "bushy", row_budget=budget)
        first = engine.generate(prompts, params)
        again = engine.generate(prompts, params)
        expected = [texts[tuple(prompt), choice] for prompt in prompts for choice in range(params.n)]
        assert [c.token_ids for c in first] == expected
        assert [c.token_ids for c in again] == expected
        assert_nothing_left(engine, drafter)
        if len(prompts[0]) > 16:
            assert again[0].num_cached_tokens >= 16


def run(make: Callable[[Texts], ScriptedDrafter], n: int, params: SamplingParams) -> list[Completion]:
    target = ToyTarget(VOCAB, order=0)
    texts = texts_of(PROMPTS, params, target)
    completions = make_engine(make(texts), n, target).generate(PROMPTS, params)
    assert [c.token_ids for c in completions] == list(texts.values())
    return completions


LONG = SamplingParams(max_tokens=400, ignore_eos=True)


@pytest.mark.parametrize("n", [1, 3, 7, 15])
def test_an_oracle_emits_n_plus_one_a_round(n: int) -> None:
    for completion in run(scripted.oracle, n, LONG):
        counts = completion.counts
        num_full, rest = divmod(399, n + 1)
        assert (counts.rounds, counts.emitted) == (num_full + (rest > 0), 399)
        assert counts.accepted == counts.drafted == 399 - counts.rounds
        assert ratios.acceptance_rate(counts) == 1.0


def test_a_wrong_drafter_emits_one_a_round() -> None:
    for completion in run(lambda texts: scripted.wrong(texts, VOCAB), 7, LONG):
        counts = completion.counts
        assert (counts.rounds, counts.emitted, counts.accepted) == (399, 399, 0)
        assert ratios.mean_accepted_length(counts) == 1.0
        assert counts.positions[0].proposed == counts.positions[0].reached == 398
        assert counts.positions[1].reached == 0


def test_no_prompts_have_no_completions() -> None:
    assert Engine(ToyTarget(VOCAB)).generate([]) == []


def test_an_empty_drafter_counts_as_no_coverage() -> None:
    for completion in run(lambda texts: scripted.empty(), 7, LONG):
        counts = completion.counts
        assert (counts.rounds, counts.rounds_without_draft, counts.drafted) == (399, 399, 0)
        assert ratios.coverage(counts) == 0.0
        assert ratios.mean_accepted_length(counts) is None


@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_half_right_drafter_lands_on_its_expected_tokens_per_round(n: int) -> None:
    completions = run(lambda texts: scripted.half_right(texts, VOCAB), n, LONG)
    rounds = sum(c.counts.rounds for c in completions)
    emitted = sum(c.counts.emitted for c in completions)
    expected = sum(0.5**i for i in range(n + 1))
    # Standard deviation of tokens per round is below 1.5; rounds number about 1,000 to 1,300.
    assert abs(emitted / rounds - expected) < 4 * 1.5 / rounds**0.5


def test_counts_are_pooled_and_positions_nest() -> None:
    counts = run(lambda texts: scripted.half_right(texts, VOCAB), 7, LONG)[0].counts
    for position, following in itertools.pairwise(counts.positions):
        assert position.proposed >= position.reached >= position.accepted
        assert following.reached <= position.accepted
        assert following.proposed <= position.proposed
    assert sum(position.accepted for position in counts.positions) == counts.accepted
    assert sum(position.proposed for position in counts.positions) == counts.drafted


@pytest.mark.parametrize("is_recurrent", [False, True], ids=["attention", "recurrent"])
def test_features_arrive_once_in_order_and_true(is_recurrent: bool) -> None:
    target = ToyTarget(VOCAB, order=0, is_recurrent=is_recurrent)
    params = SamplingParams(max_tokens=60, ignore_eos=True)
    texts = texts_of(PROMPTS, params, ToyTarget(VOCAB, order=0))
    drafter = scripted.with_taps(scripted.half_right(texts, VOCAB))
    engine = make_engine(drafter, 5, target, row_budget=24)
    engine.generate(PROMPTS, params)
    for state in drafter.states:
        position = 0
        for features in state.features:
            assert features.first_position == position
            for row in features.states[scripted.FINAL_TAP]:
                assert torch.equal(row, target._state(tuple(state.tokens[: position + 1])))
                position += 1
        # The newest token is committed but not processed; a finished request's cut tail has no need of features.
        assert position >= state.num_observed - 1
    engine.generate(PROMPTS[1:2], params)
    assert drafter.states[-1].features[0].first_position == 32, "a prefix hit leaves a gap that the drafter can see"


def test_requests_join_leave_and_cancel_between_rounds() -> None:
    target = ToyTarget(VOCAB, order=0)
    params = SamplingParams(max_tokens=30, ignore_eos=True)
    texts = texts_of(PROMPTS, params, target)
    drafter = scripted.half_right(texts, VOCAB)
    engine = make_engine(drafter, 4, target)
    (first,) = engine.submit(PROMPTS[0], params)
    (gone,) = engine.submit(PROMPTS[1], params)
    for _ in range(3):
        engine.step()
    engine.cancel(gone)
    (waiting,) = engine.submit(PROMPTS[2], params)
    (late,) = engine.submit(PROMPTS[3], params)
    engine.cancel(waiting)
    engine.cancel(waiting)
    while engine.has_work:
        engine.step()
    assert gone.finish_reason is waiting.finish_reason is FinishReason.CANCELLED
    assert tuple(first.output) == texts[tuple(PROMPTS[0]), 0]
    assert tuple(late.output) == texts[tuple(PROMPTS[3]), 0]
    assert tuple(gone.output) == texts[tuple(PROMPTS[1]), 0][: len(gone.output)]
    assert_nothing_left(engine, drafter)


def test_a_closed_stream_cancels_its_request() -> None:
    engine = Engine(ToyTarget(VOCAB))
    stream = engine.stream([1, 2, 3], SamplingParams(ignore_eos=True, max_tokens=50))
    next(stream)
    stream.close()
    assert not engine.has_work
    assert engine.cache.pool.num_held == 0


def run_out(engine: Engine) -> None:
    while engine.has_work:
        engine.step()


def test_one_requests_error_leaves_the_others_as_they_were() -> None:
    """A row that bans every token fails in the middle of a round; who runs beside it must not notice."""
    target = ToyTarget(VOCAB, order=0)
    params = SamplingParams(max_tokens=30, ignore_eos=True)
    texts = texts_of(PROMPTS, params, target)
    drafter = scripted.half_right(texts, VOCAB)
    engine = make_engine(drafter, 4, target)
    (good,) = engine.submit(PROMPTS[0], params)
    engine.step()
    everything = tuple((token, float("-inf")) for token in range(VOCAB))
    (bad,) = engine.submit(PROMPTS[0], SamplingParams(logit_bias=everything))
    with pytest.raises(ForerunError):
        run_out(engine)
    engine.cancel(bad)
    while engine.has_work:
        engine.step()
    assert tuple(good.output) == texts[tuple(PROMPTS[0]), 0]
    assert_nothing_left(engine, drafter)


@pytest.mark.parametrize("place", ["forerun.engine.round.lay_out", "forerun.engine.request.Request.push"])
def test_an_interrupt_leaves_an_engine_that_goes_on(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a round commits, its requests go on; within, they are cancelled. Nothing stays held either way."""
    target, params = ToyTarget(), SamplingParams(max_tokens=12, ignore_eos=True)
    plain = make_engine(scripted.empty(), 4, target).generate(PROMPTS, params)
    engine = make_engine(scripted.empty(), 4, target)
    requests = [request for prompt in PROMPTS for request in engine.submit(prompt, params)]
    engine.step()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.step()
    while engine.has_work:
        engine.step()
    for request, said in zip(requests, plain, strict=True):
        is_whole = tuple(request.output) == said.token_ids
        assert is_whole or request.finish_reason is FinishReason.CANCELLED
    assert engine.cache.pool.num_held == 0
    again = engine.generate(PROMPTS, params)
    assert [completion.token_ids for completion in again] == [completion.token_ids for completion in plain]


def test_a_drafter_that_fails_to_begin_holds_nobody_up() -> None:
    target = ToyTarget(VOCAB, order=0)
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    texts = texts_of(PROMPTS, params, target)
    drafter = scripted.oracle(texts)
    begin, failures = drafter.begin, [RuntimeError("once")]

    def fails_once(request):
        if failures:
            raise failures.pop()
        return begin(request)

    drafter.begin = fails_once  # type: ignore[method-assign]
    engine = make_engine(drafter, 4, target)
    requests = [engine.submit(prompt, params)[0] for prompt in PROMPTS]
    with pytest.raises(RuntimeError, match="once"):
        engine.step()
    while engine.has_work:
        engine.step()
    assert [tuple(request.output) for request in requests] == list(texts.values())
    assert_nothing_left(engine, drafter)


def test_streams_of_one_engine_keep_their_own_events() -> None:
    target = ToyTarget(VOCAB, order=0)
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    texts = texts_of(PROMPTS, params, target)
    engine = Engine(target)
    first, second = engine.stream(PROMPTS[0], params), engine.stream(PROMPTS[1], params)
    got: list[list[int]] = [[], []]
    for one, other in itertools.zip_longest(first, second):
        for tokens, event in zip(got, (one, other), strict=True):
            tokens += event.tokens if event is not None else ()
        engine.generate(PROMPTS[3], SamplingParams(max_tokens=2, ignore_eos=True))
    assert [tuple(tokens) for tokens in got] == [texts[tuple(PROMPTS[0]), 0], texts[tuple(PROMPTS[1]), 0]]


def test_a_small_pool_queues_instead_of_failing() -> None:
    target = ToyTarget(VOCAB, order=0)
    params = SamplingParams(max_tokens=20, ignore_eos=True)
    texts = texts_of(PROMPTS, params, target)
    drafter = scripted.half_right(texts, VOCAB)
    engine = make_engine(drafter, 3, target, cache_tokens=96, row_budget=8)
    assert [c.token_ids for c in engine.generate(PROMPTS, params)] == list(texts.values())
    assert_nothing_left(engine, drafter)


def test_rows_of_a_pass_stay_under_the_budget() -> None:
    target = ToyTarget(VOCAB, order=0)
    params = SamplingParams(max_tokens=20, ignore_eos=True)
    texts = texts_of(PROMPTS, params, target)
    engine = make_engine(scripted.oracle(texts), 7, target, row_budget=11)
    for prompt in PROMPTS:
        engine.submit(prompt, params)
    while engine.has_work:
        engine.step()
        assert target.last_batch is not None
        assert len(target.last_batch.tokens) <= 11


def test_a_rollback_moves_no_row_of_the_next_layout() -> None:
    """Who rolled back last round must not show in the layout: parts lie in the order of the requests."""
    target = ToyTarget(VOCAB, order=0)
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    texts = texts_of(PROMPTS, params, target)
    engine = make_engine(scripted.half_right(texts, VOCAB), 5, target)
    requests = [engine.submit(prompt, params)[0] for prompt in PROMPTS]
    while all(not request.is_finished for request in requests):
        engine.step()
        assert target.last_batch is not None
        owners = list(dict.fromkeys(target.last_batch.owners))
        assert owners == sorted(owners)


@pytest.mark.parametrize(
    ("prompt", "params", "kwargs", "words"),
    [
        ("", SamplingParams(), {}, "token ids for a target"),
        ([[]], SamplingParams(), {}, "empty prompt"),
        ([1] * 600, SamplingParams(), {}, "context of 512"),
        ([1] * 100, SamplingParams(max_tokens=100), {"cache_tokens": 128}, "cache of 128"),
        ([VOCAB], SamplingParams(), {}, "token ids from 0 to 12"),
        ("text", SamplingParams(), {}, "token ids for a target without a tokenizer"),
        ([1], SamplingParams(stop=("x",)), {}, "a tokenizer for stop strings"),
    ],
)
def test_bad_requests_say_what_to_do(prompt, params, kwargs, words: str) -> None:
    engine = Engine(ToyTarget(VOCAB), **kwargs)
    with pytest.raises(ForerunError, match=words):
        engine.generate(prompt, params)
    assert not engine.has_work


def test_one_bad_prompt_leaves_no_half_submitted_batch() -> None:
    engine = Engine(ToyTarget(VOCAB))
    with pytest.raises(ForerunError):
        engine.generate([[1], []], SamplingParams())
    assert not engine.has_work


def test_a_text_ends_at_the_context() -> None:
    target = ToyTarget(VOCAB, max_context=20)
    (completion,) = Engine(target).generate([1] * 15, SamplingParams(max_tokens=50, ignore_eos=True))
    assert (len(completion.token_ids), completion.finish_reason) == (5, "length")


def test_trees_are_refused_for_recurrent_targets() -> None:
    with pytest.raises(ForerunError, match="recurrent state can't branch"):
        Engine(ToyTarget(VOCAB, is_recurrent=True), drafting(3, is_tree=True), drafter=scripted.empty())


def test_phases_add_up() -> None:
    (completion,) = Engine(ToyTarget(VOCAB)).generate([1, 2], SamplingParams(ignore_eos=True, max_tokens=20))
    timings = completion.timings
    assert timings.verify > 0 and timings.sample >= 0 and timings.other > 0
    assert timings.total == timings.draft + timings.verify + timings.sample + timings.other
