"""A GGUF file as a target: dequantised and run in the machine's own number type, or run in its blocks as shipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from forerun.conditions import Artifact
from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, Arithmetic
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.decoder_config import DecoderConfig
from forerun.models.device import AS_SHIPPED, own_dtype
from forerun.models.families.family import Family
from forerun.models.families.registry import FAMILIES, family_of_gguf
from forerun.models.loading.gguf_config import gguf_decoder_config
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.gguf_source import GGUFSource
from forerun.models.loading.gguf_tokenizer import gguf_tokenizer
from forerun.models.loading.int8_decoder import int8_artifact, int8_decoder
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.loading.shipped_weights import ShippedWeights
from forerun.models.loading.weights import fill
from forerun.models.native.kernels import find_kernels, required_kernels
from forerun.models.native.native_decoder import NativeDecoder, on_best_kernels
from forerun.models.native.stored_blocks import BLOCK
from forerun.models.pull import file_sha256


def load_gguf(
    path: Path, dtype: torch.dtype | None, device: torch.device, arithmetic: Arithmetic = EXACT
) -> LoadedTarget:
    """``dtype`` None is the file's own where the machine computes with it.

    Raises ForerunError for a damaged file and for an architecture that the lean decoder doesn't have.
    """
    file = GGUFFile(path)
    dtype = dtype or own_dtype(file.number_type, device)
    tokenizer = gguf_tokenizer(file)
    target = load_gguf_decoder(file, dtype, device, tokenizer.eos_token_ids, arithmetic)
    name = str(dtype).removeprefix("torch.")
    artifact = Artifact(
        id=path.stem, hash=f"sha256:{file_sha256(path)}", quantisation=f"GGUF {file.quantisation}, computed in {name}"
    )
    return LoadedTarget(target, tokenizer, artifact)


def load_gguf_as_shipped(path: Path, pool_dtype: torch.dtype) -> LoadedTarget:
    """The file's own blocks on the native kernels; ``pool_dtype`` is the number type of keys and values by default.

    Raises ForerunError as ``load_gguf`` does, and where there are no native kernels.
    """
    file = GGUFFile(path)
    tokenizer = gguf_tokenizer(file)
    target, num_dequantised = load_gguf_decoder_as_shipped(file, pool_dtype, tokenizer.eos_token_ids)
    others = f", {num_dequantised} matrices of other types in float32" if num_dequantised else ""
    quantisation = f"GGUF {file.quantisation} as shipped{others}, int8 activations per block of {BLOCK}"
    return LoadedTarget(
        target, tokenizer, Artifact(path.stem, hash=f"sha256:{file_sha256(path)}", quantisation=quantisation)
    )


def load_gguf_int8(path: Path, number_type: torch.dtype) -> LoadedTarget:
    """The file's numbers rounded to int8, sensitive ones and the pool in ``number_type``.

    Raises ForerunError as ``load_gguf`` does, and where there are no native kernels.
    """
    file = GGUFFile(path)
    family, config = _described(file)
    tokenizer = gguf_tokenizer(file)
    empty = Decoder(config, name=path.stem, dtype=number_type, device="meta", eos_token_ids=tokenizer.eos_token_ids)
    target, rounding = int8_decoder(empty, _source(file, family, config, empty))
    artifact = Artifact(
        id=path.stem, hash=f"sha256:{file_sha256(path)}", quantisation=f"GGUF {file.quantisation}, {rounding}"
    )
    return LoadedTarget(target, tokenizer, int8_artifact(artifact))


def load_gguf_decoder_as_shipped(
    file: GGUFFile, pool_dtype: torch.dtype, eos_token_ids: tuple[int, ...] = ()
) -> tuple[Target, int]:
    """The model alone, and how many matrices had no kernels for their type and are fp32."""
    kernels = required_kernels(AS_SHIPPED)
    family, config = _described(file)
    empty = Decoder(config, name=file.path.stem, device="meta", eos_token_ids=eos_token_ids)
    weights = ShippedWeights(empty, _source(file, family, config, empty), kernels)
    traits = replace(empty.traits, dtype=AS_SHIPPED, device="cpu", is_bit_exact=True)
    target = NativeDecoder(config, traits, weights.read(), pool_dtype, kernels)
    return target, weights.num_plain


def load_gguf_decoder(
    file: GGUFFile,
    dtype: torch.dtype,
    device: torch.device,
    eos_token_ids: tuple[int, ...] = (),
    arithmetic: Arithmetic = EXACT,
) -> Target:
    """The model alone, for files whose tokenizer isn't needed."""
    family, config = _described(file)
    decoder = Decoder(
        config, name=file.path.stem, dtype=dtype, device=device, eos_token_ids=eos_token_ids, arithmetic=arithmetic
    )
    fill(decoder, _source(file, family, config, decoder))
    return on_best_kernels(decoder, find_kernels())


def _described(file: GGUFFile) -> tuple[Family, DecoderConfig]:
    family = family_of_gguf(file.architecture)
    if family is None:
        known = sorted(family.gguf_architecture for family in FAMILIES if family.gguf_architecture)
        raise ForerunError(
            f"a GGUF architecture of {', '.join(known)}",
            f"{file.architecture!r} in {file.path}",
            "use the model's Hugging Face directory, which other architectures can be loaded from",
        )
    return family, gguf_decoder_config(file, family)


def _source(file: GGUFFile, family: Family, config: DecoderConfig, decoder: Decoder) -> GGUFSource:
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}
    return GGUFSource(file, family, frozenset(decoder.weight_slots()), heads)
