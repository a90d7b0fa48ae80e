"""A whole tune over a simulated engine whose right answer is known."""

from collections import Counter

import pytest

from forerun.backends.base import UnreachableError
from forerun.engine.drafting import Drafting
from forerun.errors import ForerunError
from forerun.sweep.cells import OFF, CellState
from forerun.sweep.measuring import MAX_ATTEMPTS_PER_PAIR
from forerun.sweep.results import CurveShape
from support.fake_backend import Economics, FakeBackend, Machine
from support.simulated_tune import Listener, plan_of, tune, workload

FLAT = Economics(d=lambda method, n, sequences: 0.004 * n, acceptance=lambda workload, position: 0.8)
# Full length and no memory of chance: what the cost model knows is all there is.
SURE = {"acceptance": lambda workload, position: 1.0, "noise": 0.005}


def ratios(result):
    return {cell.cell.candidate.num_speculative_tokens: cell.ratio for cell in result.cells}


def drafts(call):
    return call.drafting.num_speculative_tokens > 0


def measuring(backend):
    """Calls of pairs: neither probes, nor recordings, nor warm-ups."""
    return [call for call in backend.calls if call.params.max_tokens == 48 and len(call.prompts) == call.concurrency]


@pytest.mark.parametrize(
    ("economics", "shape", "pick"),
    [
        # Every token accepted at hardly any cost: the longer the better.
        (Economics(d=lambda m, n, b: 0.0005 * n, **SURE), CurveShape.RISING, 7),
        # Only two tokens are ever right, further ones cost nothing: 2 is enough.
        (Economics(acceptance=lambda w, i: float(i < 2), noise=0.005), CurveShape.PLATEAU, 2),
        # Only two tokens are ever right, further ones are dear.
        (
            Economics(d=lambda m, n, b: 0.008 * n, acceptance=lambda w, i: float(i < 2), noise=0.005),
            CurveShape.FALLING,
            2,
        ),
        # Nothing is right, and drafting costs.
        (Economics(d=lambda m, n, b: 0.006 * n, noise=0.005), CurveShape.BELOW_ONE, None),
        # All is right, but rows cost as much as steps.
        (Economics(c=lambda r, b, x: 0.03 * r, d=lambda m, n, b: 0.003 * n, **SURE), CurveShape.BELOW_ONE, None),
    ],
    ids=["rising", "plateau", "falling", "below 1", "rows are dear"],
)
def test_the_curve_is_named_and_the_smallest_n_on_its_plateau_picked(tmp_path, economics, shape, pick):
    result = tune(tmp_path, plan_of(), FakeBackend(economics=economics))
    (curve,), (verdict,) = result.curves, result.verdicts
    assert (curve.shape, curve.pick) == (shape, pick)
    assert verdict.pick.num_speculative_tokens == (pick or 0)
    assert all(cell.state is CellState.MEASURED for cell in result.cells)
    assert result.num_comparisons == 5
    # C and D are exact here, so what was promised is what came.
    for cell in result.cells:
        assert cell.ratio == pytest.approx(cell.predicted_ratio, rel=0.05)


def test_a_candidate_that_costs_what_it_gains_is_a_tie_and_off_stays(tmp_path):
    # Never accepted, free to draft and to check: true ratio 1.
    free = Economics(noise=0.03, overhead=0.0)
    result = tune(tmp_path, plan_of(n=[1, 3]), FakeBackend(economics=free))
    assert {cell.state for cell in result.cells} == {CellState.TIE}
    assert all(cell.ratio is None and cell.interval.includes_one for cell in result.cells)
    (verdict,) = result.verdicts
    assert verdict.pick == OFF and verdict.is_tie


def test_a_candidate_that_changes_a_text_is_a_bug_and_cannot_win(tmp_path):
    backend = FakeBackend(economics=FLAT, is_broken=lambda drafting: drafting.num_speculative_tokens == 3)
    result = tune(tmp_path, plan_of(n=[1, 3]), backend)
    honest, broken = result.cells
    assert broken.ratio > honest.ratio > 1
    assert broken.has_lossless_failure and not honest.has_lossless_failure
    assert result.verdicts[0].pick == honest.cell.candidate
    assert any("changed" in sentence and "bug" in sentence for sentence in result.verdicts[0].sentences)


def test_a_refusal_ends_one_cell_alone(tmp_path):
    def refuse(call):
        if call.drafting.num_speculative_tokens == 3 and call.params.max_tokens == 48:
            raise ForerunError("an N of 1", "3", "choose another")

    result = tune(tmp_path, plan_of(n=[1, 3]), FakeBackend(economics=FLAT, on_run=refuse))
    # N = 3 is the longest, so it is refused when it is first looked at: its family stays without prediction.
    assert {cell.state for cell in result.cells} == {CellState.REFUSED}
    assert "expected an N of 1; found 3" in result.cells[1].reason


def test_a_refusal_during_measuring_ends_one_cell_alone(tmp_path):
    def refuse(call):
        if call.drafting.num_speculative_tokens == 1 and call.params.max_tokens == 48:
            raise ForerunError("an N of 3", "1", "choose another")

    refused, measured = tune(tmp_path, plan_of(n=[1, 3]), FakeBackend(economics=FLAT, on_run=refuse)).cells
    assert (refused.state, measured.state) == (CellState.REFUSED, CellState.MEASURED)
    assert "an N of 3" in refused.reason and refused.ratio is None


def test_an_engine_that_dies_leaves_unreachable_cells_and_is_not_asked_again(tmp_path):
    def die(call):
        if len(backend.calls) > 60:
            raise UnreachableError("an answer", "none", "start the engine")

    backend = FakeBackend(economics=FLAT, on_run=die)
    result = tune(tmp_path, plan_of(max_half_width=0.001), backend)
    states = [cell.state for cell in result.cells]
    assert set(states) == {CellState.UNREACHABLE}
    assert len(backend.calls) == 61
    assert result.verdicts[0].pick == OFF and result.verdicts[0].interval is None


def test_what_no_target_can_draft_is_refused_before_anything_is_measured(tmp_path):
    def check(drafting, drafter):
        raise ForerunError("the target's tokenizer", f"another in {drafter}", "choose another drafter")

    backend = FakeBackend(on_check=check)
    with pytest.raises(ForerunError, match="another in small"):
        tune(tmp_path, plan_of(), backend)
    assert backend.calls == []


def test_a_drafter_that_fits_one_of_two_targets_is_refused_for_the_other(tmp_path):
    def check(drafting, drafter):
        raise ForerunError("the target's tokenizer", "another", "choose another drafter")

    machine = Machine()
    backends = {"t": FakeBackend(machine, FLAT), "u": FakeBackend(machine, FLAT, on_check=check)}
    result = tune(tmp_path, plan_of(targets=["t", "u"], n=[3]), backends)
    assert [cell.state for cell in result.cells] == [CellState.MEASURED, CellState.REFUSED]
    assert backends["u"].calls == []


def test_looping_outputs_enter_no_verdict_but_the_controls(tmp_path):
    workloads = [workload("loop"), workload("loop-control", is_control=True)]
    plan = plan_of(methods=["ngram"], drafters=[], n=[3])
    result = tune(tmp_path, plan, FakeBackend(), workloads)
    ordinary, control = result.cells
    assert ordinary.state is CellState.NOT_RUN and ordinary.num_pairs == 0
    assert ordinary.num_looping_pairs == MAX_ATTEMPTS_PER_PAIR * plan.min_pairs
    assert "looped" in ordinary.reason and "budget" not in ordinary.reason
    assert control.state is CellState.MEASURED and control.ratio > 2 and control.num_looping_pairs == 0
    assert [verdict.setting.workload for verdict in result.verdicts] == ["loop"]
    assert result.verdicts[0].pick == OFF
    shown = {output.prompt_id for output in result.looping}
    assert len(shown) == 12 and all(prompt.startswith("loop-") and "control" not in prompt for prompt in shown)
    assert all(output.excerpt for output in result.looping)


def test_a_pair_on_a_busy_machine_is_discarded_whole_and_repeated_on_other_prompts(tmp_path):
    def disturb(call):
        # The second arm of every third pair.
        if call.params.max_tokens == 48 and len(call.prompts) == 1 and len(measuring(backend)) % 6 == 2:
            backend.machine.foreign += 5.0

    backend = FakeBackend(economics=Economics(noise=0.005, **{"acceptance": SURE["acceptance"]}), on_run=disturb)
    (cell,) = tune(tmp_path, plan_of(n=[3]), backend).cells
    assert cell.state is CellState.MEASURED
    assert (cell.num_pairs, cell.num_discarded_pairs) == (6, 3)
    prompts = [call.prompts for call in measuring(backend)]
    assert prompts[::2] == prompts[1::2]
    assert len(set(prompts)) == 9


def test_a_machine_that_is_never_quiet_ends_in_spoiled(tmp_path):
    def disturb(call):
        backend.machine.foreign += 50.0

    backend = FakeBackend(economics=FLAT, on_run=disturb)
    result = tune(tmp_path, plan_of(n=[3]), backend)
    (cell,) = result.cells
    assert cell.state is CellState.SPOILED and cell.ratio is None
    assert cell.num_discarded_pairs == MAX_ATTEMPTS_PER_PAIR * 6
    assert result.verdicts[0].pick == OFF


def test_arms_take_turns_in_going_first_and_run_the_same_prompts_and_seeds(tmp_path):
    backend = FakeBackend(economics=FLAT)
    tune(tmp_path, plan_of(n=[3], seeds=[3, 8], temperatures=[0.7], max_half_width=0.001), backend)
    calls = measuring(backend)
    pairs = list(zip(calls[::2], calls[1::2], strict=True))
    assert len(pairs) == 30
    for index, (first, second) in enumerate(pairs):
        assert (drafts(first), drafts(second)) == ((True, False) if index % 2 == 0 else (False, True))
        assert (first.prompts, first.params) == (second.prompts, second.params)
    # Twelve prompts; each comes again with another seed before any comes again with the same.
    seen = [(first.prompts[0], first.params.seed) for first, _ in pairs]
    assert [seed for _, seed in seen[:4]] == [3, 8, 3, 8]
    assert len(set(seen[:24])) == 24


def test_prompts_that_chose_never_measure(tmp_path):
    backend = FakeBackend(economics=FLAT)
    tune(tmp_path, plan_of(n=[3], quick=True, max_half_width=0.001), backend)
    pairs = [call for call in measuring(backend) if call.concurrency == 1]
    measured = {prompt for call in pairs for prompt in call.prompts}
    others = {prompt for call in backend.calls if call not in pairs for prompt in call.prompts}
    assert len(measured) == 12 and len(others) == 4
    assert not measured & others


def test_concurrency_puts_that_many_prompts_into_a_pair(tmp_path):
    backend = FakeBackend(economics=FLAT)
    result = tune(tmp_path, plan_of(n=[3], concurrency=[1, 4]), backend)
    sizes = Counter((call.concurrency, len(call.prompts), len(set(call.prompts))) for call in measuring(backend))
    assert set(sizes) == {(1, 1, 1), (4, 4, 4)}
    alone, together = result.cells
    assert (alone.conditions.concurrency, together.conditions.concurrency) == (1, 4)
    assert len(together.figures.counts.positions) == 3
    # Four at a time give out four times the tokens in about the time of the slowest.
    assert together.off_figures.throughput > 3 * alone.off_figures.throughput


def test_a_warm_corpus_is_there_only_when_named_and_then_said(tmp_path):
    plan = plan_of(methods=["suffix"], drafters=[], n=[3])
    cold_backend = FakeBackend()
    (cold,) = tune(tmp_path / "cold", plan, cold_backend).cells
    assert cold.conditions.cache_state == "cold"
    assert not any(call.has_warm_corpus for call in cold_backend.calls)

    warm_backend = FakeBackend()
    plan = plan_of(methods=["suffix"], drafters=[], n=[3], warm_corpus="traffic.jsonl")
    corpus = {"t": [[1, 2, 3, 4, 5, 6, 7, 8]]}
    (warm,) = tune(tmp_path / "warm", plan, warm_backend, warm_corpus=corpus).cells
    assert "traffic.jsonl" in warm.conditions.cache_state
    assert all(call.has_warm_corpus == drafts(call) for call in measuring(warm_backend))


def test_a_warm_corpus_that_holds_a_prompt_to_tune_on_is_refused(tmp_path):
    backend = FakeBackend()
    prompts = workload("fresh")
    answer = [*backend.prompt_ids(prompts.prompts[5]), 1, 2, 3]
    plan = plan_of(methods=["suffix"], drafters=[], warm_corpus="traffic.jsonl")
    with pytest.raises(ForerunError, match="fresh-5 in both"):
        tune(tmp_path, plan, backend, [prompts], warm_corpus={"t": [answer]})
    assert backend.calls == []


class Leaky(FakeBackend):
    """Has the answer to every prompt in its corpus before it is given."""

    def run(self, prompts, drafting, params, **more):
        if drafting.method == "suffix" and params.max_tokens == 48:
            plain = [super(Leaky, self).run([prompt], Drafting(), params, concurrency=1) for prompt in prompts]
            more["warm_corpus"] = [(*one.requests[0].prompt_ids, *one.requests[0].token_ids) for one in plain]
        return super().run(prompts, drafting, params, **more)


def test_a_corpus_that_was_fed_in_secret_is_noticed(tmp_path):
    with pytest.raises(ForerunError, match=r"for fresh-\d+ \(0 of 0 accepted\); found .* another run fed it"):
        tune(tmp_path, plan_of(methods=["suffix"], drafters=[], n=[3]), Leaky())


def test_a_long_prompt_is_refused_by_name(tmp_path):
    backend = FakeBackend()
    backend.probe.traits = backend.probe.traits.__class__(
        "simulated", "simulated", 1, 4, 50_000, 41, (49_999,), False, True
    )
    with pytest.raises(ForerunError, match="41 tokens; found fresh-0 with 40 tokens"):
        tune(tmp_path, plan_of(), backend)


def test_progress_ends_and_tells_stages(tmp_path):
    listener = Listener()
    tune(tmp_path, plan_of(n=[3]), FakeBackend(economics=FLAT), progress=listener)
    assert any(stage.startswith("measuring fresh") for stage in listener.stages)
    *_, (done, total, left) = listener.steps
    assert done == total and left == 0


def test_raw_responses_are_kept_and_cannot_be_changed(tmp_path):
    result = tune(tmp_path, plan_of(n=[3]), FakeBackend(economics=FLAT))
    files = sorted((tmp_path / "runs" / result.run_id).iterdir())
    assert len(files) == result.num_pairs
    assert all(file.stat().st_mode & 0o222 == 0 for file in files)


def test_an_engine_without_probe_is_measured_blind(tmp_path):
    result = tune(tmp_path, plan_of(n=[1, 3], quick=True), FakeBackend(economics=FLAT, has_probe=False))
    assert {cell.state for cell in result.cells} == {CellState.MEASURED}
    assert all(cell.predicted_ratio is None for cell in result.cells)
    assert result.target_costs == ()


@pytest.mark.parametrize("per_token", [0.0, 0.02])
def test_what_a_drafter_does_with_a_prompt_is_in_the_prediction(tmp_path, per_token):
    economics = Economics(
        c=lambda rows, sequences, context: 0.03 + 0.001 * rows, start=lambda method, length: per_token * length, **SURE
    )
    result = tune(tmp_path, plan_of(n=[3]), FakeBackend(economics=economics))
    (cell,) = result.cells
    (costs,) = result.draft_costs
    assert costs.start_per_token == pytest.approx(per_token)
    assert cell.predicted_ratio == pytest.approx(cell.interval.median, rel=0.03)
    assert (cell.predicted_ratio < 1.5) == bool(per_token), "a quarter of the time or more goes into the prompt"
