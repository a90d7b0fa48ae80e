"""What a pass and a prompt cost, as ratios: python -m benchmarks.figures MODEL [--only NAME ...] [--pairs N]

Each figure compares two things that take turns in this process and prints the median ratio of the pairs, with the
interval that the true median leaves in at most 3.1 % of cases. Pairs during which the machine was busy with something
else don't count; where none is left the figure is missing and the exit status 1. The aims are those of a quiet machine
with two cores.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from benchmarks.command import run_script
from benchmarks.footprint import footprint_of
from benchmarks.pairs import Ratio, compare
from forerun.engine.costs.pass_probe import PassProbe
from forerun.engine.engine import Engine
from forerun.errors import ForerunError
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.native.native_decoder import NativeDecoder
from forerun.sampling.params import SamplingParams
from forerun.sweep.load_guard import LoadLimits
from forerun.sweep.statistics import MIN_PAIRS

MEGABYTE = 1 << 20


class Models:
    """One model in the arithmetics that the figures compare, each loaded when first asked for."""

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def bf16(self) -> LoadedTarget:
        """The exact default in bf16."""
        return load_target(self.source, dtype="bf16")

    @cached_property
    def inexact(self) -> LoadedTarget:
        """bf16 through torch's own kernels."""
        return load_target(self.source, dtype="bf16", exact=False)

    @cached_property
    def shipped(self) -> LoadedTarget:
        """The file's own blocks."""
        return load_target(self.source, dtype="as-shipped")


@dataclass(frozen=True, slots=True)
class Figure:
    """``measure`` gives the ratio; ``aim`` is what it should reach, "<= 1.15" for example."""

    name: str
    what: str
    aim: str
    measure: Callable[[Models, int], Ratio]


def _passes(
    loaded: LoadedTarget, rows: int, context: int, sequences: int = 1, kv: torch.dtype | None = None
) -> Callable[[], None]:
    probe = PassProbe(loaded.target, rows, kv_dtype=kv)
    return lambda: probe.run_pass(rows, sequences, context)


def _rows(loaded: LoadedTarget, num_pairs: int) -> Ratio:
    return compare(_passes(loaded, 16, 512), _passes(loaded, 1, 512), num_pairs)


def _native(models: Models) -> NativeDecoder:
    if not isinstance(models.bf16.target, NativeDecoder):
        raise ForerunError("the native kernels", "torch alone", "build them: python -m forerun.models.native.build")
    return models.bf16.target


def _floor(models: Models, num_pairs: int) -> Ratio:
    target = _native(models)
    return compare(_passes(models.bf16, 1, 512), lambda: target.run_linears_alone(1), num_pairs)


def _linears(models: Models, num_pairs: int) -> Ratio:
    target = _native(models)
    return compare(lambda: target.run_linears_alone(16), lambda: target.run_linears_alone(1), num_pairs)


def _prefill(models: Models, num_pairs: int) -> Ratio:
    """Inexact over exact time, so exact's share of the inexact speed."""
    exact, inexact = PassProbe(models.bf16.target, 512), PassProbe(models.inexact.target, 512)
    # torch's threads stay awake for a moment after a turn and take cores from the kernels' own, and back.
    limits = LoadLimits(switches_per_second=float("inf"))
    return compare(lambda: inexact.run_slice(512, 0), lambda: exact.run_slice(512, 0), num_pairs, limits)


def _concurrency(models: Models, num_pairs: int) -> Ratio:
    """Seconds a token of one request over seconds a token of eight: both runs decode 48 tokens a request."""
    params = SamplingParams(max_tokens=48, ignore_eos=True)
    prompts = [[7 + 31 * seed + 5 * i for i in range(16)] for seed in range(8)]
    engine = Engine(models.bf16, cache_tokens=2048, reuses_prefixes=False)
    ratio = compare(lambda: engine.generate([prompts[0]], params), lambda: engine.generate(prompts, params), num_pairs)
    return Ratio(ratio.value * 8, ratio.low * 8, ratio.high * 8, ratio.num_pairs, ratio.num_spoiled, ratio.seconds)


def _context(loaded: LoadedTarget, kv: torch.dtype | None, num_pairs: int) -> Ratio:
    return compare(_passes(loaded, 1, 4096, kv=kv), _passes(loaded, 1, 128, kv=kv), num_pairs)


FIGURES = (
    Figure("rows", "C(16) / C(1), bf16, context 512", "<= 1.15", lambda m, n: _rows(m.bf16, n)),
    Figure("rows-shipped", "C(16) / C(1), as shipped, context 512", "<= 1.3", lambda m, n: _rows(m.shipped, n)),
    Figure("floor", "C(1), bf16, context 512 / its linears alone", "<= 1.4 (135M), <= 1.15 (1.5B)", _floor),
    Figure("linears", "the linears alone, bf16, 16 rows / 1", "", _linears),
    Figure("prefill", "exact / inexact prefill speed, 512 tokens", ">= 0.8", _prefill),
    Figure("concurrency", "tokens a second of 8 requests / 1", ">= 5", _concurrency),
    Figure("context", "C(1) at context 4,096 / 128, bf16", "<= 1.5", lambda m, n: _context(m.bf16, None, n)),
    Figure(
        "context-shipped",
        "the same, as shipped, int8 pool",
        "<= 1.5",
        lambda m, n: _context(m.shipped, torch.int8, n),
    ),
    Figure(
        "shipped",
        "C(1) as shipped / C(1) bf16, context 512",
        "<= 0.6 (135M), <= 0.45 (1.5B)",
        lambda m, n: compare(_passes(m.shipped, 1, 512), _passes(m.bf16, 1, 512), n),
    ),
)


def main() -> int:
    """Measures and prints, one line a figure; 1 where the machine was too busy for one of them.

    Raises ForerunError for fewer pairs than an interval needs.
    """
    names = [figure.name for figure in FIGURES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument(
        "--only", nargs="+", choices=[*names, "memory"], default=[*names, "memory"], help="some of them (default: all)"
    )
    parser.add_argument("--pairs", type=int, default=12, help=f"a figure, at least {MIN_PAIRS} (default: 12)")
    arguments = parser.parse_args()
    if arguments.pairs < MIN_PAIRS:
        raise ForerunError(f"--pairs of at least {MIN_PAIRS}", str(arguments.pairs), "fewer give no interval")
    models = Models(arguments.model)
    print(f"{arguments.model}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    print("| figure | aim | ratio | pairs (left out) | ms a call |\n|---|---|---|---|---|")
    is_complete = True
    for figure in FIGURES:
        if figure.name in arguments.only:
            ratio = figure.measure(models, arguments.pairs)
            is_complete &= ratio.num_pairs > 0
            print(row(figure, ratio), flush=True)
    if "memory" in arguments.only:
        found = footprint_of(arguments.model, "bf16")
        print(
            f"| memory over the runtime, weights ({found.weights / MEGABYTE:.0f} MB) and pool "
            f"({found.pool / MEGABYTE:.0f} MB) | <= 400 MB | {found.rest / MEGABYTE:.0f} MB | 1 process | |"
        )
    return 0 if is_complete else 1


def row(figure: Figure, ratio: Ratio) -> str:
    """One line of the table."""
    first, second = (1e3 * seconds for seconds in ratio.seconds)
    times = f"{first:.2f} / {second:.2f}" if ratio.num_pairs else "–"
    return f"| {figure.what} | {figure.aim} | {ratio.text} | {ratio.num_pairs} ({ratio.num_spoiled}) | {times} |"


if __name__ == "__main__":
    run_script(main)
