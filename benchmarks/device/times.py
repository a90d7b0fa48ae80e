"""How long does it take there? Passes, slices of prefill, drafts, the head; as they are, as graphs, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from benchmarks.device.models import Model
from benchmarks.device.row import Row
from forerun.drafters.base import DraftRequest, TargetView
from forerun.drafters.method import BuildContext, DraftModel
from forerun.drafters.registry import build
from forerun.engine.costs.pass_probe import PassProbe
from forerun.engine.costs.timing import time_in_turns
from forerun.engine.drafting import Drafting
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.recording.clock import Clock
from forerun.models.recording.recorded_decoder import MIN_USES, RecordedDecoder
from forerun.models.recording.recorder import Recorder
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.sweep.statistics import median

NUM_REPEATS = 7
# (rows, sequences) of verify passes.
PASSES = ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (17, 1), (32, 1), (64, 1), (8, 8), (40, 8))
SLICES = (128, 512)
LENGTHS = (1, 4, 8)


def passes(targets: dict[str, Target], context: int, clock: Clock) -> Iterator[Row]:
    """C(rows, context): a verify pass, logits of all rows, on the device until they are there. All take turns."""
    probes = {name: PassProbe(target) for name, target in targets.items()}
    for rows, sequences in PASSES:
        runs = [partial(probe.run_pass, rows, sequences, context) for probe in probes.values()]
        times = dict(zip(probes, _medians(runs, clock), strict=True))
        for name, seconds in times.items():
            found = f"{times['exact'] / seconds:.2f} of exact's speed" if "exact" in times and name != "exact" else ""
            yield Row("C", f"{name}, {rows} rows of {sequences} sequences, context {context}", found, seconds=seconds)


def prefill(targets: dict[str, Target], context: int, clock: Clock) -> Iterator[Row]:
    """A slice of a prompt behind ``context`` tokens, logits of its last row."""
    probes = {name: PassProbe(target) for name, target in targets.items()}
    for rows in SLICES:
        runs = [partial(probe.run_slice, rows, context) for probe in probes.values()]
        for name, seconds in zip(probes, _medians(runs, clock), strict=True):
            what = f"{name}, {rows} rows behind {context}"
            yield Row("prefill", what, f"{rows / seconds:,.0f} tokens a second", seconds=seconds)


def heads(targets: dict[str, Target], clock: Clock) -> Iterator[Row]:
    """The output head alone: its weights are fp32, twice the bytes of any other matrix in bf16."""
    for rows in (1, 16):
        runs = []
        for target in targets.values():
            hidden = torch.zeros(rows, target.traits.hidden_size, device=target.traits.device)
            runs.append(partial(target.head, hidden))
        for name, seconds in zip(targets, _medians(runs, clock), strict=True):
            yield Row("head", f"{name}, {rows} rows", "", seconds=seconds)


def drafts(model: Model, target: Target, draft_model: Target | None, clock: Clock) -> Iterator[Row]:
    """D(N) for one sequence, by retrieval and by a second model on the device."""
    text = model.tokens(256)
    second = None if draft_model is None else DraftModel(draft_model)
    context = BuildContext(TargetView(target), None, second, num_slots=1024)
    for method in ("ngram", "suffix", "draft_model") if second else ("ngram", "suffix"):
        drafter = build(method, {}, context)
        sampler = KeyedSampler(
            SamplingParams(), seed=1, choice=0, prompt=text, eos_token_ids=(), vocab_size=target.traits.vocab_size
        )
        state = drafter.begin(DraftRequest(1, tuple(text), sampler))
        drafter.observe(state, text, None)
        limits = [Drafting(method, length).limit(length + 1, length) for length in LENGTHS]
        runs = [partial(drafter.propose, [state], [limit]) for limit in limits]
        for length, seconds in zip(LENGTHS, _medians(runs, clock), strict=True):
            found = second.target.traits.name if second and method == "draft_model" else ""
            yield Row("D", f"{method}, N = {length}", found, seconds=seconds)
        drafter.end(state)


def recorded(
    decoder: Decoder,
    recorders: Sequence[Recorder],
    context: int,
    clock: Clock,
    passes: Sequence[tuple[int, int]] = PASSES,
) -> Iterator[Row]:
    """A pass as it is and by each recorder, and what recording took: what the engine goes by when it chooses."""
    target = RecordedDecoder(decoder, recorders, clock)
    probe = PassProbe(target)
    for rows, sequences in passes:
        known = set(target.comparisons)
        for _ in range(MIN_USES):
            probe.run_pass(rows, sequences, context)
        for kind in target.comparisons.keys() - known:
            comparison = target.comparisons[kind]
            for name, seconds in comparison.seconds.items():
                took = comparison.recording_seconds.get(name)
                notes = ["fastest"] if name == comparison.fastest else []
                notes += [] if took is None else [f"recorded in {took:.2f} s"]
                what = f"{name}, {rows} rows of {sequences} sequences, context {context}"
                yield Row("recorded", what, ", ".join(notes), seconds=seconds)


def _medians(runs: Sequence[Callable[[], object]], clock: Clock) -> list[float]:
    return [median(times) for times in time_in_turns([_without_result(run) for run in runs], NUM_REPEATS, clock)]


def _without_result(run: Callable[[], object]) -> Callable[[], None]:
    def done() -> None:
        run()

    return done
