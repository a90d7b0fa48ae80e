"""Where the time of a round goes: python -m benchmarks.round MODEL

For every setting and N the rounds are timed by phase, over the target itself and over one that repeats its logits and
computes nothing, so that what is left is the engine alone. That one reads some memory a pass, as weights are read:
what comes after a pass finds the caches empty. All rows take turns within a repetition; times are medians over all
rounds, shares medians over repetitions, with an interval that the true median leaves in at most 3.1 % of cases.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.command import run_script
from benchmarks.replayed_target import ReplayedTarget
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.tokenizer import Tokenizer
from forerun.sampling.params import SamplingParams
from forerun.sweep.statistics import median, median_interval
from forerun.types import Timings
from forerun.workloads.catalog import load_workload

SETTINGS = {
    "T = 0": SamplingParams(),
    "T = 0.8, top-p 0.95": SamplingParams(temperature=0.8, top_p=0.95, seed=20),
}
LENGTHS = (0, 3, 7, 15)


@dataclass(frozen=True, slots=True)
class Round:
    """Wall seconds of one engine step and, of those, the phases that the engine times itself."""

    seconds: float
    phases: Timings

    @property
    def overhead(self) -> float:
        """Seconds outside the target's pass, the scheduler's included."""
        return self.seconds - self.phases.verify


@dataclass(frozen=True, slots=True)
class Run:
    """The rounds of one request; the prompt's pass is left out."""

    rounds: tuple[Round, ...]
    num_tokens: int

    @property
    def share(self) -> float:
        """What is not the target's pass, of all."""
        return sum(round.overhead for round in self.rounds) / sum(round.seconds for round in self.rounds)


def run_of(
    target: LoadedTarget | ReplayedTarget,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    drafting: Drafting,
    params: SamplingParams,
) -> Run:
    """One request from the prompt to its last token, in an engine of its own."""
    engine = Engine(target, drafting, cache_tokens=len(prompt) + params.max_tokens + 64)
    engine.tokenizer = tokenizer  # a bare target has none, and turning tokens into text is part of a round
    (request,) = engine.submit(prompt, params)
    while request.is_prefilling:
        engine.step()
    rounds = []
    while not request.is_finished:
        before, start = request.timings, time.perf_counter()
        engine.step()
        rounds.append(Round(time.perf_counter() - start, request.timings + before.divided(-1)))
    return Run(tuple(rounds), request.counts.emitted)


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection inside the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def main() -> None:
    """Print one table of phases per setting."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.round", description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model directory, a GGUF file or a catalog name")
    parser.add_argument("--method", default="ngram", help="a retrieval method (default: ngram)")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, metavar="N")
    parser.add_argument("--tokens", type=int, default=96, help="tokens per run (default: 96)")
    parser.add_argument("--repeats", type=int, default=7, help="runs per row, at least 6 for an interval (default: 7)")
    parser.add_argument("--prompt", type=Path, help="a text to continue (default: the first code_edit prompt)")
    parser.add_argument("--logprobs", type=int, help="also report this many alternatives per token")
    parser.add_argument("--read", type=int, default=128, metavar="MB", help="what the free target reads (default: 128)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded = load_target(options.model)
    text = options.prompt.read_text() if options.prompt else load_workload("code_edit").prompts[0].plain_text
    prompt = loaded.tokenizer.encode(text)
    print(f"{loaded.target.traits.name}, {loaded.target.traits.dtype}, V = {loaded.target.traits.vocab_size}, ", end="")
    print(f"prompt of {len(prompt)} tokens, {options.tokens} tokens a run, {options.method}, {options.threads} threads")
    with uncollected():
        for name, params in SETTINGS.items():
            asked = replace(params, max_tokens=options.tokens, ignore_eos=True, logprobs=options.logprobs)
            print(f"\n{name}")
            measure(loaded, prompt, asked, options.method, options.lengths, options.repeats, options.read << 20)


def measure(
    loaded: LoadedTarget,
    prompt: Sequence[int],
    params: SamplingParams,
    method: str,
    lengths: Sequence[int],
    num_repeats: int,
    num_bytes_read: int,
) -> None:
    """Time every N in turn, ``num_repeats`` times over, and print a row for each."""
    draftings = [Drafting(method if n else "off", n) for n in lengths]
    free = ReplayedTarget(loaded.target, len(prompt) + params.max_tokens + max(lengths) + 1, num_bytes_read)
    run_of(free, loaded.tokenizer, prompt, Drafting(), params)
    free.is_recording = False
    real: list[list[Run]] = [[] for _ in draftings]
    alone: list[list[Run]] = [[] for _ in draftings]
    for _ in range(num_repeats):
        for index, drafting in enumerate(draftings):
            real[index].append(run_of(loaded, loaded.tokenizer, prompt, drafting, params))
            alone[index].append(run_of(free, loaded.tokenizer, prompt, drafting, params))
    for title, runs in (("over the target", real), ("over a target that costs nothing", alone)):
        print(f"  {title}")
        print("     N  tokens/round   pass ms | draft µs  sample µs  other µs  beside µs    all µs | share of a round")
        for n, runs_of_n in zip(lengths, runs, strict=True):
            print("  " + _row(n, runs_of_n))


def _row(n: int, runs: Sequence[Run]) -> str:
    rounds = [round for run in runs for round in run.rounds]

    def micros(value: Callable[[Round], float]) -> float:
        return median([value(round) for round in rounds]) * 1e6

    interval = median_interval([run.share for run in runs])
    between = f"{interval.low:.1%} to {interval.high:.1%}" if interval else "too few repeats"
    return (
        f"{n:4d}  {runs[0].num_tokens / len(runs[0].rounds):12.2f}  {micros(lambda r: r.phases.verify) / 1e3:8.2f} |"
        f" {micros(lambda r: r.phases.draft):8.0f}  {micros(lambda r: r.phases.sample):9.0f}"
        f"  {micros(lambda r: r.phases.other):8.0f}  {micros(lambda r: r.seconds - r.phases.total):9.0f}"
        f"  {micros(lambda r: r.overhead):8.0f} | {median([run.share for run in runs]):.1%} ({between})"
    )


if __name__ == "__main__":
    run_script(main)
