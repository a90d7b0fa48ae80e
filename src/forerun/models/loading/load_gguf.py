"""A GGUF file as a target: dequantised once, then run in the machine's own number type."""

from __future__ import annotations

from pathlib import Path

import torch

from forerun.conditions import Artifact
from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, Arithmetic
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.families.registry import FAMILIES, family_of_gguf
from forerun.models.loading.gguf_config import gguf_decoder_config
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.gguf_source import GGUFSource
from forerun.models.loading.gguf_tokenizer import gguf_tokenizer
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.loading.weights import fill
from forerun.models.native.kernels import find_kernels
from forerun.models.native.native_decoder import on_best_kernels
from forerun.models.pull import file_sha256


def load_gguf(path: Path, dtype: torch.dtype, device: torch.device, arithmetic: Arithmetic = EXACT) -> LoadedTarget:
    """Raises ForerunError for a damaged file and for an architecture that the lean decoder doesn't have."""
    file = GGUFFile(path)
    tokenizer = gguf_tokenizer(file)
    target = load_gguf_decoder(file, dtype, device, tokenizer.eos_token_ids, arithmetic)
    name = str(dtype).removeprefix("torch.")
    artifact = Artifact(
        id=path.stem, hash=f"sha256:{file_sha256(path)}", quantisation=f"GGUF {file.quantisation}, computed in {name}"
    )
    return LoadedTarget(target, tokenizer, artifact)


def load_gguf_decoder(
    file: GGUFFile,
    dtype: torch.dtype,
    device: torch.device,
    eos_token_ids: tuple[int, ...] = (),
    arithmetic: Arithmetic = EXACT,
) -> Target:
    """The model alone, for files whose tokenizer isn't needed."""
    family = family_of_gguf(file.architecture)
    if family is None:
        known = sorted(family.gguf_architecture for family in FAMILIES if family.gguf_architecture)
        raise ForerunError(
            f"a GGUF architecture of {', '.join(known)}",
            f"{file.architecture!r} in {file.path}",
            "use the model's Hugging Face directory, which other architectures can be loaded from",
        )
    config = gguf_decoder_config(file, family)
    decoder = Decoder(
        config, name=file.path.stem, dtype=dtype, device=device, eos_token_ids=eos_token_ids, arithmetic=arithmetic
    )
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}
    fill(decoder, GGUFSource(file, family, frozenset(decoder.weight_slots()), heads))
    return on_best_kernels(decoder, find_kernels())
