"""What each quantisation of one model costs and gives: python -m benchmarks.quantisation MODEL [--quick]

The reference is fp32 arithmetic on the numbers of the file, with fp32 keys and values. KL (nats) and top-1 agreement
are taken over shipped prompts that the reference continued itself; pass rate and acceptance (suffix, N = 7) over
answers of every quantisation at T = 0.8, once for each seed; speed is plain decoding of one request, in turns with
bf16. The spread is the largest difference between two seeds of either side; a difference from the reference within it
is none, and so is a ratio of speeds whose interval includes 1. What is measured of int8 is kept as its gate.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.command import run_script
from benchmarks.pairs import Ratio
from benchmarks.quantised import PLAIN_TOKENS, Answers, Distance, Quantised, answers_of, distances, held_out, speed
from forerun.errors import ForerunError
from forerun.models.device import AS_SHIPPED, INT8
from forerun.models.loading.int8_gate import describe_gate, write_gate


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    num_positions: int
    num_prompts: int
    max_tokens: int
    num_seeds: int
    num_pairs: int


FULL = Size(4000, 96, 128, 5, 12)
QUICK = Size(1000, 24, 48, 3, 6)


def models(source: str) -> tuple[Quantised, Quantised, list[Quantised]]:
    """Reference, bf16, and all others that this file can be run in."""
    reference = Quantised("fp32", source, "float32", "float32")
    bf16 = Quantised("bf16", source, "bfloat16")
    others = [bf16.with_pool("bf16, int8 keys and values", "int8")]
    for name, dtype in (("int8", INT8), ("as shipped", AS_SHIPPED)):
        model = Quantised(name, source, dtype)
        try:
            others += [model, model.with_pool(f"{name}, int8 keys and values", "int8")]
        except ForerunError as error:
            print(f"{name} is left out: {error}\n")
    return reference, bf16, others


def difference(values: Sequence[float], reference: Sequence[float]) -> str:
    """Mean with the spread, and how far it lies from the reference's mean; none within the spread of either."""
    mean, other = (sum(some) / len(some) for some in (values, reference))
    spread = max(max(some) - min(some) for some in (values, reference))
    shown = "none" if abs(mean - other) <= spread else f"{mean - other:+.1%}"
    return f"{mean:.1%} (spread {max(values) - min(values):.1%}) | {shown}"


def speed_cell(ratio: Ratio) -> str:
    """Tokens a second of both, and their ratio with its interval."""
    if not ratio.num_pairs:
        return f"– | {ratio.text} | 0 ({ratio.num_spoiled}) |"
    beside, own = (PLAIN_TOKENS / seconds for seconds in ratio.seconds)
    is_none = ratio.low <= 1 <= ratio.high
    interval = f"{ratio.text}{', none' if is_none else ''}"
    return f"{own:.0f} ({beside:.0f}) | {interval} | {ratio.num_pairs} ({ratio.num_spoiled}) |"


def row(model: Quantised, distance: Distance | None, answers: Sequence[Answers], of: Sequence[Answers]) -> str:
    """All cells but those of speed."""
    size = model.loaded.target.weight_bytes / 1e6
    far = "0 | 100 %" if distance is None else f"{distance.mean_kl:.5f} | {distance.top1:.2%}"
    passed = difference([one.pass_rate for one in answers], [one.pass_rate for one in of])
    accepted = difference([one.acceptance for one in answers], [one.acceptance for one in of])
    return f"| {model.name} | {size:.0f} | {far} | {passed} | {accepted} |"


HEAD = (
    "| weights | MB | mean KL | top-1 | pass rate | difference | acceptance | difference "
    "| tokens a second (bf16 beside) | of bf16 | pairs (left out) |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Measures, prints the table, keeps int8's gate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--quick", action="store_true", help="four minutes on SmolLM2-135M")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    reference, bf16, rest = models(arguments.model)
    others = [bf16, *rest]
    texts = held_out(reference, size.num_positions, size.max_tokens)
    far = distances(reference, others, texts)
    print(
        f"{reference.loaded.artifact.id}, kernels {reference.loaded.target.traits.kernels}, {torch.get_num_threads()} "
        f"threads, load {os.getloadavg()[0]:.1f}; {far[0].num_positions:,} positions of {len(texts)} texts; "
        f"{size.num_prompts} prompts of up to {size.max_tokens} tokens, {size.num_seeds} seeds\n\n{HEAD}",
        flush=True,
    )
    seeds = range(2, 2 + size.num_seeds)
    of = answers_of(reference, size.num_prompts, size.max_tokens, seeds)
    for model, distance in zip([reference, *others], [None, *far], strict=True):
        answers = of if model is reference else answers_of(model, size.num_prompts, size.max_tokens, seeds)
        cells = speed_cell(speed(model, bf16, size.num_pairs)) if model is not bf16 else "beside the others | 1 | |"
        print(f"{row(model, distance, answers, of)} {cells}", flush=True)
    for model, distance in zip(others, far, strict=True):
        if model.name == "int8":
            hash = model.loaded.artifact.hash
            write_gate(hash, distance.mean_kl, distance.num_positions)
            print(f"\nint8 from now on: {describe_gate(hash)}")


if __name__ == "__main__":
    run_script(main)
