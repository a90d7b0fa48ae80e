"""What keys and values in each number type cost in bytes and change in the text: python -m benchmarks.pool_types

The shipped prompts are read with a pool of every type. For each position the next token's law is compared with that of
the model's own pool in fp32: mean KL in nats, and how often the likeliest token is the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.command import run_script
from forerun.models.base import AttentionGroup, PassInput, Target
from forerun.models.catalog import DEFAULT_MODEL
from forerun.models.device import KV_DTYPES
from forerun.models.loading.load_target import load_target
from forerun.models.tokenizer import Tokenizer
from forerun.workloads.catalog import NAMES, load_workload

SLICE_ROWS = 64


def texts(tokenizer: Tokenizer, num_tokens: int, num_workloads: int) -> list[list[int]]:
    """The shipped prompts of each workload end to end, cut to ``num_tokens``."""
    joined = ("\n\n".join(prompt.plain_text for prompt in load_workload(name).prompts) for name in NAMES)
    return [list(tokenizer.encode(text))[:num_tokens] for text, _ in zip(joined, range(num_workloads))]


def logits(target: Target, tokens: list[int], kv_dtype: torch.dtype) -> Iterator[Tensor]:
    """fp32 logits [rows, vocabulary] of one slice after another."""
    store = target.new_store(len(tokens), kv_dtype)
    slots = torch.arange(len(tokens))
    for start in range(0, len(tokens), SLICE_ROWS):
        at = slots[start : start + SLICE_ROWS]
        rows = tuple(range(len(at)))
        group = AttentionGroup(rows, slots[: start + len(at)])
        batch = PassInput(torch.tensor(tokens)[at], at, at, (0,) * len(at), (group,), rows, {0: len(at)})
        yield target.forward(batch, store).logits


def compare(target: Target, prompts: list[list[int]], kv_dtype: torch.dtype) -> tuple[int, float, float]:
    """Positions, mean KL against a pool in fp32, share of positions with the same likeliest token."""
    num_positions, kl, num_same = 0, 0.0, 0
    for tokens in prompts:
        for exact, found in zip(logits(target, tokens, torch.float32), logits(target, tokens, kv_dtype)):
            p, q = (rows.double().log_softmax(-1) for rows in (exact, found))
            kl += float((p.exp() * (p - q)).sum())
            num_same += int((p.argmax(-1) == q.argmax(-1)).sum())
            num_positions += len(p)
    return num_positions, kl / num_positions, num_same / num_positions


def main() -> None:
    """Prints one line a number type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--tokens", type=int, default=512, help="of each workload (%(default)s)")
    parser.add_argument("--workloads", type=int, default=4, help="so many (%(default)s)")
    args = parser.parse_args()
    loaded = load_target(args.model, dtype=args.dtype)
    prompts = texts(loaded.tokenizer, args.tokens, args.workloads)
    print(f"{loaded.artifact.id}, weights {loaded.target.traits.dtype}, kernels {loaded.target.traits.kernels}")
    for name, kv_dtype in KV_DTYPES.items():
        size = loaded.target.new_store(0, kv_dtype).bytes_per_slot
        num_positions, kl, same = compare(loaded.target, prompts, kv_dtype)
        print(f"{name}: {size:,} bytes a token, mean KL {kl:.5f}, top-1 {same:.2%} of {num_positions:,} positions")


if __name__ == "__main__":
    run_script(main)
