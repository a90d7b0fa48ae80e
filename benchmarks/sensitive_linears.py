"""Which matrices pay for int8: python -m benchmarks.sensitive_linears MODEL

One kind of matrix at a time is rounded to int8, all others are bf16; then all of them, and all but the head. For each,
mean KL (nats) and top-1 agreement with fp32 over shipped prompts, keys and values in fp32. MODEL is a GGUF file or a
catalog name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.command import run_script
from benchmarks.pool_types import texts
from benchmarks.weight_types import compare
from forerun.errors import ForerunError
from forerun.models.base import Target
from forerun.models.catalog import CATALOG
from forerun.models.decoder import Decoder
from forerun.models.families.registry import family_of_gguf
from forerun.models.loading.gguf_config import gguf_decoder_config
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.gguf_source import GGUFSource
from forerun.models.loading.int8_decoder import int8_decoder
from forerun.models.loading.load_target import load_target
from forerun.models.pull import pull

KINDS = {
    "q, k, v": frozenset({"q_proj", "k_proj", "v_proj"}),
    "attention output": frozenset({"o_proj"}),
    "gate, up": frozenset({"gate_proj", "up_proj"}),
    "down": frozenset({"down_proj"}),
    "head and embedding": frozenset({"lm_head", "embed_tokens"}),
}
ALL = frozenset[str]().union(*KINDS.values())


def rounded(path: Path, kept: frozenset[str]) -> Target:
    """The file in bf16, with int8 in place of all matrices that aren't ``kept``."""
    file = GGUFFile(path)
    family = family_of_gguf(file.architecture)
    if family is None:
        raise ForerunError("a GGUF architecture of the lean decoder", repr(file.architecture), "choose another file")
    config = gguf_decoder_config(file, family)
    empty = Decoder(config, name=path.stem, dtype=torch.bfloat16, device="meta")
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}
    target, _ = int8_decoder(empty, GGUFSource(file, family, frozenset(empty.weight_slots()), heads), kept)
    return target


def main() -> None:
    """Prints one line a choice of matrices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=256, help="of each of four workloads (%(default)s)")
    arguments = parser.parse_args()
    path = pull(arguments.model) if arguments.model in CATALOG else Path(arguments.model)
    reference = load_target(path, dtype="float32", device="cpu")
    prompts = texts(reference.tokenizer, arguments.tokens, 4)
    choices = {"nothing": ALL} | {name: ALL - kind for name, kind in KINDS.items()}
    choices |= {"all": frozenset(), "all but head and embedding": KINDS["head and embedding"]}
    print("| rounded to int8 | MB | mean KL | top-1 | positions |\n|---|---|---|---|---|")
    for name, kept in choices.items():
        target = rounded(path, kept)
        num_positions, kl, top1 = compare(reference.target, target, prompts)
        print(f"| {name} | {target.weight_bytes / 1e6:.0f} | {kl:.5f} | {top1:.1%} | {num_positions:,} |", flush=True)


if __name__ == "__main__":
    run_script(main)
