"""What one drawn token costs, on the logits of a real text: python -m benchmarks.draws MODEL TEXT_FILE

Prints the median and the mean per setting, and a hash of all tokens drawn, so that two versions can be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path
from statistics import fmean, median

import torch
from torch import Tensor

from benchmarks.command import run_script
from forerun.models.loading.load_target import load_target
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams

SETTINGS = {
    "T = 0.8, top-p 0.95": SamplingParams(temperature=0.8, top_p=0.95),
    "T = 0.8": SamplingParams(temperature=0.8),
    "T = 0.8, top-k 50, top-p 0.95": SamplingParams(temperature=0.8, top_k=50, top_p=0.95),
    "T = 0.8, min-p 0.05": SamplingParams(temperature=0.8, min_p=0.05),
    "T = 1, top-p 0.99": SamplingParams(top_p=0.99, temperature=1.0),
    "T = 0.8, top-p 0.95, repetition 1.1": SamplingParams(temperature=0.8, top_p=0.95, repetition_penalty=1.1),
}
NUM_ALTERNATIVES = (0, 5)


def main() -> None:
    """Time every setting over the same rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draws", description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("text", type=Path, help="a file; its first tokens are the rows' context")
    parser.add_argument("--rows", type=int, default=256)
    options = parser.parse_args()
    torch.set_num_threads(1)
    loaded = load_target(options.model)
    tokens = loaded.tokenizer.encode(options.text.read_text())[: options.rows]
    rows = loaded.target.logits_of(tokens)
    print(f"{loaded.target.traits.name}, V = {rows.shape[1]}, {len(rows)} rows")
    for name, params in SETTINGS.items():
        _print(name, *_drawn(params, rows, tokens))
    for count in NUM_ALTERNATIVES:
        _print(f"logprobs, {count} alternatives", *_logprobs(count, rows, tokens))


def _sampler(params: SamplingParams, vocab_size: int) -> KeyedSampler:
    return KeyedSampler(params, seed=3, choice=0, prompt=[], eos_token_ids=[], vocab_size=vocab_size)


def _drawn(params: SamplingParams, rows: Tensor, tokens: list[int]) -> tuple[list[float], object]:
    sampler = _sampler(params, rows.shape[1])
    seconds, drawn = [], []
    for position, row in enumerate(rows):
        start = time.perf_counter()
        drawn.append(sampler.token(row, position, tokens[:position]))
        seconds.append(time.perf_counter() - start)
    return seconds, drawn


def _logprobs(count: int, rows: Tensor, tokens: list[int]) -> tuple[list[float], object]:
    sampler = _sampler(SamplingParams(logprobs=count), rows.shape[1])
    seconds, found = [], []
    for row, token in zip(rows, tokens, strict=True):
        start = time.perf_counter()
        found.append(sampler.logprobs(row, [], token))
        seconds.append(time.perf_counter() - start)
    return seconds, found


def _print(name: str, seconds: list[float], result: object) -> None:
    digest = hashlib.sha256(repr(result).encode()).hexdigest()[:12]
    print(f"{name:38s} median {median(seconds) * 1e6:6.0f} µs, mean {fmean(seconds) * 1e6:6.0f} µs, {digest}")


if __name__ == "__main__":
    run_script(main)
