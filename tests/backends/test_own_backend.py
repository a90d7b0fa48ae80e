"""Our own engine under trial: records that add up, cold starts, a closed loop, a probe that leaves no trace."""

from itertools import pairwise

import pytest

from forerun.backends.own.backend import OwnBackend
from forerun.drafters.registry import build
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.errors import ForerunError
from forerun.sampling.params import SamplingParams
from forerun.sweep.forecast import recording_of
from forerun.sweep.oracle import replay
from support.tiny_decoder import tiny_decoder, truncated
from support.toy_backend import backend_of, prompts_of
from support.toy_target import ToyTarget

VOCAB = 13
OFF = Drafting()
PARAMS = SamplingParams(max_tokens=30, ignore_eos=True, seed=5)
SAMPLED = SamplingParams(temperature=0.6, max_tokens=30, seed=5)


class WatchedToy(ToyTarget):
    """Remembers how many requests took part in each pass."""

    def __init__(self, **fields):
        super().__init__(VOCAB, **fields)
        self.num_owners = []

    def forward(self, batch, store, taps=frozenset()):
        self.num_owners.append(len(set(batch.owners)))
        return super().forward(batch, store, taps)


def tiny_backend():
    target = tiny_decoder(3)
    return backend_of(target, shallow=truncated(target, 2))


@pytest.mark.parametrize(
    ("drafting", "drafter"),
    [(OFF, ""), (Drafting("ngram", 3), ""), (Drafting("suffix", 7, is_tree=True), ""),
     (Drafting("draft_model", 3), "shallow")],
    ids=["off", "ngram", "suffix tree", "draft_model"],
)  # fmt: skip
@pytest.mark.parametrize("params", [PARAMS, SAMPLED], ids=["greedy", "sampled"])
def test_records_add_up_and_equal_the_engines(drafting, drafter, params):
    backend = tiny_backend()
    prompts = prompts_of(5, 31)
    trial = backend.run(prompts, drafting, params, concurrency=2, drafter=drafter)
    assert [record.prompt_id for record in trial.requests] == [prompt.id for prompt in prompts]
    plain = backend.run(prompts, OFF, params, concurrency=1)
    engine = Engine(backend.loaded, drafting, draft_model=backend._drafters.get(drafter), reuses_prefixes=False)
    for record, expected in zip(trial.requests, plain.requests, strict=True):
        assert record.token_ids == expected.token_ids and record.text == expected.text
        assert len(record.token_times) == len(record.token_ids) == record.counts.emitted + 1
        assert all(0 < a <= b for a, b in pairwise(record.token_times))
        assert record.seconds == record.token_times[-1] <= trial.seconds
        assert len(set(record.token_times)) == record.counts.rounds + 1
        assert record.counts == engine.generate(record.prompt_ids, params)[0].counts
        assert record.num_cached_tokens == 0 and record.seed == 5
        assert 0 < record.timings.total <= trial.seconds
    assert trial.peak_memory > 2**20
    assert sum(record.timings.total for record in trial.requests) <= trial.seconds


@pytest.mark.parametrize("concurrency", [1, 3])
def test_the_closed_loop_keeps_that_many_in_flight_until_prompts_run_out(concurrency):
    target = WatchedToy()
    params = SamplingParams(temperature=1.0, max_tokens=25, seed=1)
    trial = backend_of(target).run(prompts_of(9, VOCAB), OFF, params, concurrency=concurrency)
    assert len({len(record.token_ids) for record in trial.requests}) > 2, "they end at different times"
    busy = [count == concurrency for count in target.num_owners]
    assert busy == sorted(busy, reverse=True)
    assert max(target.num_owners) == concurrency


def test_each_run_is_cold():
    backend = backend_of(ToyTarget(VOCAB, order=1))
    prompts = prompts_of(1, VOCAB) * 3
    drafting = Drafting("suffix", 7, knobs={"feeds_corpus": True})
    first = backend.run(prompts[:1], drafting, SAMPLED, concurrency=1)
    second = backend.run(prompts[:1], drafting, SAMPLED, concurrency=1)
    assert first.requests[0].counts == second.requests[0].counts
    # The knob works inside one run, or the above would prove nothing.
    together = backend.run(prompts, drafting, SAMPLED, concurrency=1)
    assert together.requests[2].counts.accepted > together.requests[0].counts.accepted
    assert all(record.num_cached_tokens == 0 for record in together.requests)


def test_a_warm_corpus_helps_and_is_refused_where_there_is_none():
    backend = backend_of(ToyTarget(VOCAB, order=2))
    prompts = prompts_of(1, VOCAB)
    drafting = Drafting("suffix", 7)
    cold = backend.run(prompts, drafting, SAMPLED, concurrency=1).requests[0]
    corpus = [(*cold.prompt_ids, *cold.token_ids)]
    warm = backend.run(prompts, drafting, SAMPLED, concurrency=1, warm_corpus=corpus).requests[0]
    assert warm.token_ids == cold.token_ids and warm.counts.accepted > cold.counts.accepted
    with pytest.raises(ForerunError, match="shared corpus"):
        backend.run(prompts, Drafting(), SAMPLED, concurrency=1, warm_corpus=corpus)


def test_what_cannot_run_is_refused_by_check():
    backend = backend_of(ToyTarget(VOCAB, is_recurrent=True))
    backend.check(Drafting("suffix", 7), "")
    with pytest.raises(ForerunError, match="recurrent state"):
        backend.check(Drafting("suffix", 7, is_tree=True), "")
    with pytest.raises(ForerunError, match="a drafter among none; found 'gone'"):
        backend.check(Drafting("draft_model", 3), "gone")


@pytest.mark.parametrize(("kv_dtype", "named"), [("auto", "float32"), ("bf16", "bfloat16"), ("int8", "int8")])
def test_every_trial_has_keys_and_values_in_the_backends_number_type(kv_dtype, named):
    loaded = backend_of(tiny_decoder(2)).loaded
    backend = OwnBackend(loaded, kv_dtype=kv_dtype)
    assert backend.conditions(OFF, PARAMS, concurrency=1, drafter="").kv_dtype == named
    prompts = prompts_of(2, 31)
    trial = backend.run(prompts, OFF, PARAMS, concurrency=1)
    engine = Engine(loaded, kv_dtype=kv_dtype)
    expected = engine.generate([backend.prompt_ids(prompt) for prompt in prompts], PARAMS)
    assert [record.token_ids for record in trial.requests] == [one.token_ids for one in expected]


def test_conditions_name_the_drafter():
    conditions = tiny_backend().conditions(Drafting("draft_model", 3), SAMPLED, concurrency=2, drafter="shallow")
    assert (conditions.target.id, conditions.drafter.id) == ("toy", "shallow")
    assert (conditions.method, conditions.num_speculative_tokens, conditions.concurrency) == ("draft_model", 3, 2)
    assert "temperature=0.6" in conditions.sampling and conditions.cache_state == "cold"


@pytest.mark.parametrize("is_recurrent", [False, True])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_counts_are_those_of_a_cold_replay_however_many_run_beside(is_recurrent, concurrency):
    # Greedy text of a short memory loops, so long drafts are accepted whole: rows are as many as they can be.
    backend = backend_of(ToyTarget(VOCAB, order=1, is_recurrent=is_recurrent))
    params = SamplingParams(max_tokens=100, ignore_eos=True, seed=0)
    knobs = {"occurrence": "earliest"}
    drafting = Drafting("ngram", 31, knobs=knobs)
    trial = backend.run(prompts_of(concurrency, VOCAB), drafting, params, concurrency=concurrency)
    for record in trial.requests:
        recording = recording_of(record, backend.probe.traits, params)
        assert record.counts == replay(lambda: build("ngram", knobs), recording, drafting)
        assert record.counts.accepted > 60


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_probing_leaves_no_trace(is_recurrent):
    target = WatchedToy(order=2, is_recurrent=is_recurrent)
    backend = backend_of(target)
    prompts = prompts_of(4, VOCAB)
    before = backend.run(prompts, Drafting("suffix", 3), SAMPLED, concurrency=2)
    probe = backend.probe
    for _ in range(2):
        for rows, sequences, context in [(1, 1, 40), (16, 1, 40), (64, 1, 100), (2, 2, 40), (16, 2, 40), (127, 1, 40)]:
            num_passes = target.num_passes
            probe.run_pass(rows, sequences, context)
            assert target.num_passes > num_passes
            assert len(target.last_batch.tokens) == rows
            assert set(target.last_batch.positions.tolist()) == set(range(context, context + rows // sequences))
            assert target.num_owners[-1] == sequences
    draft = probe.draft_runner(Drafting("suffix", 1), SAMPLED, "", backend.prompt_ids(prompts[0]))
    for n, sequences in [(1, 1), (7, 3), (1, 1), (3, 2)]:
        draft(n, sequences)
    after = backend.run(prompts, Drafting("suffix", 3), SAMPLED, concurrency=2)
    for one, other in zip(before.requests, after.requests, strict=True):
        assert (one.token_ids, one.counts) == (other.token_ids, other.counts)


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_points_that_share_a_bed_pay_for_their_pass_alone(is_recurrent):
    target = WatchedToy(is_recurrent=is_recurrent)
    probe = backend_of(target).probe
    probe.run_pass(1, 1, 100)
    for rows in (1, 4, 16, 1, 4, 16):
        num_passes = target.num_passes
        probe.run_pass(rows, 1, 100)
        assert target.num_passes == num_passes + 1


def rows_of_passes(target):
    """Rows of every pass that the target runs from now on."""
    passes = []
    forward = target.forward

    def counted(*args, **more):
        passes.append(len(args[0].tokens))
        return forward(*args, **more)

    target.forward = counted
    return passes


def test_a_draft_model_drafts_again_and_again_behind_the_same_text():
    backend = tiny_backend()
    shallow = backend._drafters["shallow"].target
    passes = rows_of_passes(shallow)
    text = backend.prompt_ids(prompts_of(1, 31)[0])
    draft = backend.probe.draft_runner(Drafting("draft_model", 1), PARAMS, "shallow", text)
    draft(3, 1)
    assert passes == [len(text), 1, 1]
    passes.clear()
    for _ in range(3):
        draft(3, 1)
    # The text stays computed: each draft is its N passes of one row.
    assert passes == [1, 1, 1] * 3


def test_starting_a_draft_model_runs_it_over_the_prompt_each_time():
    backend = tiny_backend()
    shallow = backend._drafters["shallow"].target
    passes = rows_of_passes(shallow)
    text = backend.prompt_ids(prompts_of(1, 31)[0])
    start = backend.probe.start_runner(Drafting("draft_model", 3), PARAMS, "shallow", text)
    for num_tokens in (1, 5, len(text), 5):
        start(num_tokens)
    assert passes == [1, 5, len(text), 5]


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_both_arms_of_a_pair_read_prompts_in_the_same_slices_under_the_same_budget(is_recurrent):
    target = ToyTarget(VOCAB, order=1, is_recurrent=is_recurrent, max_context=2048)
    backend = backend_of(target)
    params = SamplingParams(max_tokens=60, ignore_eos=True, seed=0)
    prompts = [*prompts_of(2, VOCAB), *prompts_of(1, VOCAB, length=600)]
    slices, budgets = {}, set()
    for drafting in (OFF, Drafting("suffix", 63, is_tree=not is_recurrent), Drafting("ngram", 3)):
        sizes = []
        forward = target.forward

        def watched(batch, store, taps=frozenset(), sizes=sizes, forward=forward):
            # A slice of prefill wants no logits, its last one those of one row.
            sizes += [batch.num_committed[owner] for owner in batch.num_committed if batch.owners.count(owner) > 200]
            return forward(batch, store, taps)

        target.forward = watched
        backend.run(prompts, drafting, params, concurrency=3)
        target.forward = forward
        slices[drafting.method] = sizes
        flags = dict(backend.conditions(drafting, params, concurrency=3, drafter="").flags)
        budgets.add((flags["row_budget"], flags["prefill_rows"]))
    assert slices["off"] == slices["suffix"] == slices["ngram"] and len(slices["off"]) >= 2
    assert len(budgets) == 1
