"""Where the time of a round goes: python -m benchmarks.round MODEL

For every setting and N the target's own rounds are timed by phase, and then the same rounds over a target that costs
nothing, so that what is left is the engine alone. Settings take turns within a repetition; shares are medians over
repetitions with an interval that the median leaves in at most 3.1 % of cases.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from benchmarks.replayed_target import ReplayedTarget
from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.tokenizer import Tokenizer
from forerun.sampling.params import SamplingParams
from forerun.sweep.statistics import median_interval
from forerun.types import Timings
from forerun.workloads.catalog import load_workload

SETTINGS = {
    "T = 0": SamplingParams(),
    "T = 0.8, top-p 0.95": SamplingParams(temperature=0.8, top_p=0.95, seed=20),
}
LENGTHS = (0, 3, 7, 15)


@dataclass(slots=True)
class Rounds:
    """Wall seconds and phases of the rounds of one run; the prompt's pass is left out."""

    seconds: float = 0.0
    num_rounds: int = 0
    num_tokens: int = 0
    phases: Timings = field(default_factory=Timings)

    @property
    def overhead(self) -> float:
        """Seconds a round outside the target's pass, the scheduler's included."""
        return (self.seconds - self.phases.verify) / self.num_rounds

    @property
    def share(self) -> float:
        """What is not the target's pass, of all."""
        return 1.0 - self.phases.verify / self.seconds


def rounds_of(
    target: LoadedTarget | ReplayedTarget, tokenizer: Tokenizer, prompt: Sequence[int], drafting: Drafting,
    params: SamplingParams,
) -> Rounds:  # fmt: skip
    """One request from the prompt to its last token, in an engine of its own."""
    engine = Engine(target, drafting, cache_tokens=len(prompt) + params.max_tokens + 64)
    engine.tokenizer = tokenizer  # a bare target has none, and turning tokens into text is part of a round
    (request,) = engine.submit(prompt, params)
    while request.is_prefilling:
        engine.step()
    found, before = Rounds(), request.timings
    start = time.perf_counter()
    while not request.is_finished:
        engine.step()
    found.seconds = time.perf_counter() - start
    found.num_rounds, found.num_tokens = request.counts.rounds, request.counts.emitted
    found.phases = _difference(request.timings, before)
    return found


def _difference(after: Timings, before: Timings) -> Timings:
    return after + before.divided(-1)


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
            measure(loaded, prompt, asked, options.method, options.lengths, options.repeats)


def measure(
    loaded: LoadedTarget, prompt: Sequence[int], params: SamplingParams, method: str, lengths: Sequence[int],
    num_repeats: int,
) -> None:  # fmt: skip
    """Time every N in turn, ``num_repeats`` times over, and print a row for each."""
    draftings = [Drafting(method if n else "off", n) for n in lengths]
    free = ReplayedTarget(loaded.target, len(prompt) + params.max_tokens + max(lengths) + 1)
    rounds_of(free, loaded.tokenizer, prompt, Drafting(), params)
    free.is_recording = False
    real: list[list[Rounds]] = [[] for _ in draftings]
    alone: list[list[Rounds]] = [[] for _ in draftings]
    for _ in range(num_repeats):
        for index, drafting in enumerate(draftings):
            real[index].append(rounds_of(loaded, loaded.tokenizer, prompt, drafting, params))
            alone[index].append(rounds_of(free, loaded.tokenizer, prompt, drafting, params))
    print(
        "   N  tokens/round  pass ms | draft µs  sample µs  other µs  beside µs | share of a round     | at no cost µs"
    )
    for n, rounds, bare in zip(lengths, real, alone, strict=True):
        print(_row(n, rounds, bare))


def _row(n: int, rounds: Sequence[Rounds], bare: Sequence[Rounds]) -> str:
    def middle(values: Sequence[float]) -> float:
        return sorted(values)[len(values) // 2]

    def a_round(phase: str) -> float:
        return middle([getattr(run.phases, phase) / run.num_rounds for run in rounds])

    beside = middle([(run.seconds - run.phases.total) / run.num_rounds for run in rounds])
    interval = median_interval([run.share for run in rounds])
    between = f"{interval.low:6.1%} to {interval.high:6.1%}" if interval else "too few repeats"
    overhead = middle([run.overhead for run in bare])
    return (
        f"{n:4d}  {rounds[0].num_tokens / rounds[0].num_rounds:12.2f}  {a_round('verify') * 1e3:7.2f} |"
        f" {a_round('draft') * 1e6:8.0f}  {a_round('sample') * 1e6:9.0f}  {a_round('other') * 1e6:8.0f}"
        f"  {beside * 1e6:9.0f} | {middle([run.share for run in rounds]):6.1%} ({between}) |"
        f" {overhead * 1e6:6.0f} ({overhead / (overhead + a_round('verify')):.1%})"
    )


if __name__ == "__main__":
    main()
