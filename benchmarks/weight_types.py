"""What a GGUF file's weights in each arithmetic change in the text and take: python -m benchmarks.weight_types

The shipped prompts are read by the same file loaded in every way. For each position the next token's law is compared
with that of float32: mean KL in nats, and how often the likeliest token is the same. Keys and values are fp32
throughout. Then passes of 1 and 16 rows over a context of 512 tokens are timed in turn; the fastest of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch

from benchmarks.command import run_script
from benchmarks.pool_types import logits, texts
from forerun.models.base import AttentionGroup, PassInput, Target
from forerun.models.catalog import DEFAULT_MODEL
from forerun.models.device import AS_SHIPPED
from forerun.models.kv_store import KVStore
from forerun.models.loading.load_target import load_target

CONTEXT = 512
NUM_ROWS = (1, 16)


def compare(reference: Target, other: Target, prompts: Sequence[list[int]]) -> tuple[int, float, float]:
    """Positions, mean KL from the reference's law to the other's, share of positions with the same likeliest token."""
    num_positions, kl, num_same = 0, 0.0, 0
    for tokens in prompts:
        for exact, found in zip(logits(reference, tokens, torch.float32), logits(other, tokens, torch.float32)):
            p, q = (rows.double().log_softmax(-1) for rows in (exact, found))
            kl += float((p.exp() * (p - q)).sum())
            num_same += int((p.argmax(-1) == q.argmax(-1)).sum())
            num_positions += len(p)
    return num_positions, kl / num_positions, num_same / num_positions


def seconds(target: Target, store: KVStore, num_rows: int) -> float:
    """One pass of so many rows behind ``CONTEXT`` positions, logits of all."""
    at = torch.arange(CONTEXT, CONTEXT + num_rows)
    rows = tuple(range(num_rows))
    group = AttentionGroup(rows, torch.arange(CONTEXT + num_rows))
    batch = PassInput(at, at, at, (0,) * num_rows, (group,), rows, {0: num_rows})
    began = time.perf_counter()
    target.forward(batch, store)
    return time.perf_counter() - began


def fastest(targets: dict[str, Target], repetitions: int) -> dict[str, list[float]]:
    """By target, the fastest pass of each of ``NUM_ROWS``; targets take turns."""
    stores = {name: target.new_store(CONTEXT + NUM_ROWS[-1]) for name, target in targets.items()}
    times = {name: [float("inf")] * len(NUM_ROWS) for name in targets}
    for _ in range(repetitions):
        for index, num_rows in enumerate(NUM_ROWS):
            for name, target in targets.items():
                times[name][index] = min(times[name][index], seconds(target, stores[name], num_rows))
    return times


def main() -> None:
    """Prints one line a way of loading."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--tokens", type=int, default=512, help="of each workload (%(default)s)")
    parser.add_argument("--workloads", type=int, default=4, help="so many (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=15, help="passes timed (%(default)s)")
    args = parser.parse_args()
    loaded = {
        dtype: load_target(args.model, dtype=dtype, device="cpu") for dtype in ("float32", "bfloat16", AS_SHIPPED)
    }
    targets = {dtype: one.target for dtype, one in loaded.items()}
    prompts = texts(loaded[AS_SHIPPED].tokenizer, args.tokens, args.workloads)
    kernels = targets[AS_SHIPPED].traits.kernels
    print(f"{loaded[AS_SHIPPED].artifact.id}, kernels {kernels}, {torch.get_num_threads()} threads")
    times = fastest(targets, args.repetitions)
    for dtype in ("bfloat16", AS_SHIPPED):
        num_positions, kl, same = compare(targets["float32"], targets[dtype], prompts)
        one, many = times[dtype]
        print(
            f"{dtype}: mean KL {kl:.5f}, top-1 {same:.2%} of {num_positions:,} positions; C(1) {one * 1e3:.2f} ms, "
            f"{one / times['bfloat16'][0]:.2f} of bfloat16; C({NUM_ROWS[-1]})/C(1) {many / one:.2f}"
        )


if __name__ == "__main__":
    run_script(main)
