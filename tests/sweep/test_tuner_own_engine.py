"""A whole tune through the real engine on a toy target; an engine that shares a corpus between arms is noticed."""

import pytest

from forerun.backends.own.backend import OwnBackend
from forerun.drafters.registry import build
from forerun.engine.engine import Engine
from forerun.errors import ForerunError
from forerun.sweep.cells import CellState
from forerun.sweep.load_guard import LoadLimits
from forerun.sweep.plan import Plan
from forerun.sweep.progress import Deadline, Silent
from forerun.sweep.run_directory import RunDirectory
from forerun.sweep.trials import TrialStore
from forerun.sweep.tuner import Tuner
from forerun.workloads.workload import Workload
from support.toy_backend import loaded, prompts_of
from support.toy_target import ToyTarget

VOCAB = 40
# The machine is shared with other tests: what others take is not the point here.
ANY_LOAD = LoadLimits(foreign_share=2.0, switches_per_second=1e9)


def plan_of(**fields):
    defaults = {"targets": ["toy"], "methods": ["suffix"], "n": [3], "max_tokens": 24, "max_pairs": 6}
    return Plan.model_validate(defaults | {"temperatures": [0.8]} | fields)


def tune(path, plan, backend, vocab_size=VOCAB):
    workloads = [
        Workload("toy", prompts_of(10, vocab_size)),
        Workload("control", prompts_of(4, vocab_size, workload="control"), is_control=True),
    ]
    with TrialStore(path / "trials.sqlite") as store:
        run = store.open_run(plan)
        result = Tuner(
            plan, workloads, {"toy": backend}, run, RunDirectory(path, run.run_id), Deadline(None), Silent(), {},
            limits=ANY_LOAD,
        ).tune()  # fmt: skip
        run.finish(result)
    return result


class SharedCorpus(OwnBackend):
    """Every run's texts, those of ``off`` too, enter one corpus that all suffix arms draft from."""

    def __init__(self, target):
        super().__init__(target)
        self.shared = build("suffix")

    def _engine(self, drafting, drafter, *, concurrency, num_tokens):
        if drafting.method != "suffix":
            return super()._engine(drafting, drafter, concurrency=concurrency, num_tokens=num_tokens)
        return Engine(self.loaded, drafting, drafter=self.shared, reuses_prefixes=False)

    def run(self, *args, **more):
        record = super().run(*args, **more)
        self.shared.ingest([(*request.prompt_ids, *request.token_ids) for request in record.requests])
        return record


@pytest.mark.parametrize("is_recurrent", [False, True])
@pytest.mark.parametrize("methods", [["suffix"], ["ngram"], [{"name": "suffix", "is_tree": True}]], ids=str)
def test_a_tune_of_the_real_engine_is_lossless_and_finds_no_leak(tmp_path, methods, is_recurrent):
    if is_recurrent and not isinstance(methods[0], str):
        pytest.skip("a recurrent state can't branch")
    backend = OwnBackend(loaded(ToyTarget(VOCAB, order=1, is_recurrent=is_recurrent)))
    result = tune(tmp_path, plan_of(methods=methods, concurrency=[1, 3]), backend)
    assert {cell.state for cell in result.cells} <= {CellState.MEASURED, CellState.TIE, CellState.NOT_RUN}
    assert all(cell.figures is not None and not cell.has_lossless_failure for cell in result.cells)
    assert all(cell.predicted_ratio is not None for cell in result.cells)
    # Chosen on some prompts and measured on others, yet of one kind: what replay expects comes about.
    for cell in result.cells:
        assert cell.figures.tokens_per_round == pytest.approx(cell.predicted_tokens_per_round, rel=0.35)


def test_a_corpus_of_text_is_replayed_as_the_engine_reads_it(tmp_path):
    backend = OwnBackend(loaded(ToyTarget(VOCAB, order=1)))
    file = tmp_path / "notes.txt"
    file.write_text(" ".join(prompt.text for prompt in prompts_of(10, VOCAB)))
    methods = [{"name": "suffix", "knobs": {"corpus": str(file)}}]
    for cell in tune(tmp_path, plan_of(methods=methods), backend).cells:
        assert cell.state is not CellState.REFUSED, "the replay has the target's tokenizer"
        assert cell.predicted_ratio is not None and not cell.has_lossless_failure


def test_a_corpus_shared_between_arms_is_noticed(tmp_path):
    backend = SharedCorpus(loaded(ToyTarget(VOCAB, order=1)))
    with pytest.raises(ForerunError, match=r"named corpus for toy-\d+ .* another run fed it"):
        tune(tmp_path, plan_of(), backend)


class FedByOff(SharedCorpus):
    """Only what ``off`` says enters the corpus."""

    def run(self, prompts, drafting, params, **more):
        if drafting.method != "off":
            return OwnBackend.run(self, prompts, drafting, params, **more)
        return super().run(prompts, drafting, params, **more)


def test_a_corpus_fed_by_off_alone_is_noticed(tmp_path):
    with pytest.raises(ForerunError, match="another run fed it"):
        tune(tmp_path, plan_of(), FedByOff(loaded(ToyTarget(300, order=0))), 300)
