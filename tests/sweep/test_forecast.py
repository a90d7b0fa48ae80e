"""What is read off one long run must be what shorter drafts really bring."""

import pytest

from forerun import ratios
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.sampling.params import SamplingParams
from forerun.sweep.cells import Candidate, Cell, Setting
from forerun.sweep.cost_model import Prediction
from forerun.sweep.costs import measure_c, measure_overhead, most_rows
from forerun.sweep.forecast import shortened
from forerun.sweep.selection import Role, select
from forerun.types import PositionCounts, RoundCounts
from support.fake_backend import Economics, FakeBackend
from support.scripted_drafters import bushy, half_right
from support.simulated_tune import workload
from support.toy_target import ToyTarget

VOCAB = 13
PROMPTS = [[index % VOCAB, (index * 5 + 3) % VOCAB, 7] for index in range(24)]
PARAMS = SamplingParams(max_tokens=100, ignore_eos=True, temperature=0.8, seed=2)
SETTING = Setting("t", "code", 0.0, 1)


@pytest.fixture(scope="module")
def texts():
    completions = Engine(ToyTarget(VOCAB), row_budget=2048, cache_tokens=16384).generate(PROMPTS, PARAMS)
    return {(tuple(prompt), 0): one.token_ids for prompt, one in zip(PROMPTS, completions, strict=True)}


def counts_of(drafter, n, *, is_tree=False):
    engine = Engine(
        ToyTarget(VOCAB), Drafting("suffix", n, is_tree=is_tree), drafter=drafter, row_budget=2048, cache_tokens=16384
    )
    return sum((one.counts for one in engine.generate(PROMPTS, PARAMS)), RoundCounts())


@pytest.mark.parametrize("share", [0.4, 0.8])
def test_shorter_drafts_of_a_serial_drafter_are_read_off_the_longest(texts, share):
    longest = counts_of(half_right(texts, VOCAB, share), 7)
    assert shortened(longest, 7) == longest
    for n in (1, 3):
        real, read_off = counts_of(half_right(texts, VOCAB, share), n), shortened(longest, n)
        assert ratios.tokens_per_round(read_off) == pytest.approx(ratios.tokens_per_round(real), rel=0.04)
        assert ratios.acceptance_rate(read_off) == pytest.approx(ratios.acceptance_rate(real), rel=0.06)
        assert read_off.drafted / read_off.rounds == pytest.approx(real.drafted / real.rounds, rel=0.02)
        assert len(read_off.positions) == len(real.positions) == n


def test_a_shortened_tree_keeps_its_rows_per_depth(texts):
    longest = counts_of(bushy(texts, VOCAB), 7, is_tree=True)
    assert longest.drafted > sum(position.proposed for position in longest.positions)
    assert shortened(longest, 7) == longest
    real, read_off = counts_of(bushy(texts, VOCAB), 3, is_tree=True), shortened(longest, 3)
    assert read_off.drafted / read_off.rounds == pytest.approx(real.drafted / real.rounds, rel=0.1)
    assert ratios.tokens_per_round(read_off) == pytest.approx(ratios.tokens_per_round(real), rel=0.06)


def test_nothing_drafted_is_nothing_shortened():
    nothing = RoundCounts(5, 5, 0, 0, 5)
    assert shortened(nothing, 3) == nothing
    one = RoundCounts(2, 1, 3, 2, 4, (PositionCounts(1, 1, 1), PositionCounts(1, 1, 1), PositionCounts(1, 1, 0)))
    assert shortened(one, 1) == RoundCounts(2, 1, 1, 1, 3, (PositionCounts(1, 1, 1),))


def prediction(ratio):
    return Prediction(ratio, 2.0, 1.2, 0.2, 1.1, 0.1, False)


def roles_of(ratios_by_candidate, *, extra=(), controls=frozenset()):
    cells = {Cell.of(SETTING, candidate): ratio for candidate, ratio in ratios_by_candidate.items()}
    predictions = {cell: prediction(ratio) for cell, ratio in cells.items() if ratio is not None}
    roles = select([*cells, *extra], predictions, set(controls))
    return {cell.candidate: role for cell, role in roles.items() if cell.workload == SETTING.workload}, roles


NGRAM, LONG, SUFFIX = Candidate("ngram", 3), Candidate("ngram", 7), Candidate("suffix", 3)


@pytest.mark.parametrize(
    ("promised", "expected"),
    [
        ({NGRAM: 1.4, LONG: 1.39, SUFFIX: 1.35}, (Role.PICK, Role.PASSED_OVER, Role.RUNNER_UP)),
        ({NGRAM: 1.4, LONG: 1.41, SUFFIX: 1.2}, (Role.PASSED_OVER, Role.PICK, Role.PASSED_OVER)),
        ({NGRAM: 1.4, LONG: 1.4, SUFFIX: 1.5}, (Role.PASSED_OVER, Role.PASSED_OVER, Role.PICK)),
        ({NGRAM: 0.8, LONG: 0.7, SUFFIX: None}, (Role.PICK, Role.PASSED_OVER, Role.PASSED_OVER)),
        ({NGRAM: 1.4, LONG: 1.4, SUFFIX: 1.4}, (Role.PICK, Role.PASSED_OVER, Role.RUNNER_UP)),
    ],
)
def test_the_best_is_picked_and_another_family_runs_up_if_it_is_close(promised, expected):
    roles, _ = roles_of(promised)
    assert tuple(roles[candidate] for candidate in (NGRAM, LONG, SUFFIX)) == expected


def test_the_control_takes_the_commonest_pick_whatever_it_promises_there():
    control = [Cell("t", candidate, "repeat", 0.0, 1) for candidate in (NGRAM, LONG, SUFFIX)]
    _, roles = roles_of({NGRAM: 1.4, LONG: 1.3, SUFFIX: 1.1}, extra=control, controls={"repeat"})
    assert [roles[cell] for cell in control] == [Role.PICK, Role.PASSED_OVER, Role.PASSED_OVER]


def test_overhead_is_that_of_the_round_and_not_of_the_prefill():
    backend = FakeBackend(
        economics=Economics(d=lambda m, n, b: 0.004, acceptance=lambda w, i: 0.9, noise=0.0, overhead=0.002)
    )
    prompt = workload("fresh").prompts[0]
    params = SamplingParams(max_tokens=16, seed=0)
    candidate = Candidate("draft_model", 3, drafter="small")
    assert measure_overhead(backend, prompt, candidate, params) == pytest.approx(0.002)


def test_overhead_is_measured_on_the_longest_chain_where_there_is_one():
    tree = Candidate("suffix", 15, is_tree=True)
    cells = [Cell.of(SETTING, candidate) for candidate in (tree, NGRAM, LONG)]
    assert most_rows(cells) == LONG
    assert most_rows(cells[:1]) == tree


def test_points_of_one_bed_are_timed_together():
    backend = FakeBackend(economics=Economics(c=lambda rows, sequences, context: rows / 1000 + context / 1e6))
    order = []
    run_pass = backend.probe.run_pass

    def watched(rows, sequences, context):
        order.append((sequences, context))
        run_pass(rows, sequences, context)

    backend.probe.run_pass = watched
    cells = [Cell("t", NGRAM, "code", 0.0, size) for size in (1, 4)]
    table = measure_c(backend.probe, "t", cells, [100, 300], 0.0, clock=backend.machine.clock)
    beds = [bed for bed, before in zip(order, [None, *order], strict=False) if bed != before]
    assert beds == [(1, 100), (1, 300), (4, 100), (4, 300)]
    found = {(point.rows, point.sequences, point.context): point.seconds for point in table.points}
    assert set(found) == {
        (rows, size, context) for rows, size in [(1, 1), (4, 1), (4, 4), (16, 4)] for context in (100, 300)
    }
    for (rows, _, context), seconds in found.items():
        assert seconds == pytest.approx(rows / 1000 + context / 1e6)
    assert {(point.rows, point.context) for point in table.slices} == {
        (rows, context) for rows in (16, 64) for context in (0, 300)
    }
