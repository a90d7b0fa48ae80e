"""A Hugging Face directory as a target: the lean decoder where it has the family, otherwise the adapter."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoTokenizer
from transformers import __version__ as transformers_version

from forerun.conditions import UNDISCLOSED, Artifact
from forerun.errors import ForerunError
from forerun.models.arithmetic.arithmetic import EXACT, Arithmetic
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.device import INT8, own_dtype
from forerun.models.families.registry import family_of_architecture
from forerun.models.loading.int8_decoder import int8_artifact, int8_decoder
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.loading.safetensors_source import SafetensorsSource, stored_number_type, weight_files
from forerun.models.loading.weights import fill
from forerun.models.native.kernels import find_kernels
from forerun.models.native.native_decoder import on_best_kernels
from forerun.models.pull import file_sha256
from forerun.models.tokenizer import Tokenizer


def load_directory(
    directory: Path,
    dtype: torch.dtype | None,
    device: torch.device,
    arithmetic: Arithmetic = EXACT,
    *,
    id: str | None = None,
    revision: str = UNDISCLOSED,
) -> LoadedTarget:
    """``dtype`` None is the files' own where the machine computes with it.

    Raises ForerunError for damaged or missing files and for architectures that neither path supports.
    """
    config = _read_config(directory)
    dtype = dtype or own_dtype(stored_number_type(directory), device)
    eos = _eos_token_ids(directory, config)
    target = load_directory_target(directory, config, dtype, device, eos, arithmetic)
    tokenizer = Tokenizer(_read_tokenizer(directory), label=directory.name, eos_token_ids=eos)
    artifact = Artifact(
        id=id or directory.name,
        revision=revision,
        hash=f"sha256:{_combined_sha256(weight_files(directory))}",
        quantisation=f"{_stored_dtype(config)}, computed in {str(dtype).removeprefix('torch.')}",
    )
    return LoadedTarget(target, tokenizer, artifact)


def load_directory_int8(
    directory: Path, number_type: torch.dtype, *, id: str | None = None, revision: str = UNDISCLOSED
) -> LoadedTarget:
    """Weights rounded to int8, sensitive ones and the pool in ``number_type``.

    Raises ForerunError as ``load_directory`` does, for models without a lean decoder and without native kernels.
    """
    config = _read_config(directory)
    family = family_of_architecture(_architecture(config))
    if family is None:
        raise ForerunError(
            f"a model of the lean decoder for dtype {INT8}", _architecture(config), "use --dtype auto for this model"
        )
    eos = _eos_token_ids(directory, config)
    decoder_config = family.read(getattr(config, "text_config", config))
    empty = Decoder(decoder_config, name=directory.name, dtype=number_type, device="meta", eos_token_ids=eos)
    source = SafetensorsSource(directory, norm_offset=family.norm_offset, is_head_tied=decoder_config.is_head_tied)
    target, rounding = int8_decoder(empty, source)
    tokenizer = Tokenizer(_read_tokenizer(directory), label=directory.name, eos_token_ids=eos)
    artifact = Artifact(
        id=id or directory.name,
        revision=revision,
        hash=f"sha256:{_combined_sha256(weight_files(directory))}",
        quantisation=f"{_stored_dtype(config)}, {rounding}",
    )
    return LoadedTarget(target, tokenizer, int8_artifact(artifact))


def load_directory_target(
    directory: Path,
    config: Any,
    dtype: torch.dtype,
    device: torch.device,
    eos_token_ids: tuple[int, ...] = (),
    arithmetic: Arithmetic = EXACT,
) -> Target:
    """The model alone. ``config`` is the directory's transformers configuration."""
    architecture = _architecture(config)
    family = family_of_architecture(architecture)
    if family is None:
        from forerun.models.adapter import load_adapter

        if not arithmetic.is_bit_exact:
            raise ForerunError(
                "exact arithmetic for a model that runs through the adapter", architecture, "leave out exact=False"
            )
        return load_adapter(directory, dtype=dtype, device=device)
    decoder_config = family.read(getattr(config, "text_config", config))
    decoder = Decoder(
        decoder_config,
        name=directory.name,
        dtype=dtype,
        device=device,
        eos_token_ids=eos_token_ids,
        arithmetic=arithmetic,
    )
    fill(
        decoder,
        SafetensorsSource(directory, norm_offset=family.norm_offset, is_head_tied=decoder_config.is_head_tied),
    )
    return on_best_kernels(decoder, find_kernels())


def _architecture(config: Any) -> str:
    return str((getattr(config, "architectures", None) or ["unknown"])[0])


def _read_config(directory: Path) -> Any:
    path = directory / "config.json"
    if not path.exists():
        raise ForerunError(f"config.json in {directory}", "none", "give a model directory, a GGUF file or a hub id")
    model_type = _read_object(path).get("model_type")
    if model_type is not None and model_type not in CONFIG_MAPPING:
        from forerun.models.adapter.architecture import SUPPORTED

        raise ForerunError(
            f"{SUPPORTED}, of a model type that transformers {transformers_version} has",
            f"{model_type!r} in {path}",
            "update transformers or choose another model",
        )
    try:
        # Never asks whether to run code that came with the model: it doesn't.
        return AutoConfig.from_pretrained(str(directory), trust_remote_code=False)
    except Exception as error:  # configurations check themselves, each with errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ForerunError(f"a valid configuration at {path}", reason, "fetch it again") from error


def _read_tokenizer(directory: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(str(directory), use_fast=True, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises plain exceptions
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ForerunError(f"a tokenizer in {directory}", reason, "fetch tokenizer.json of the model") from error


def _eos_token_ids(directory: Path, config: Any) -> tuple[int, ...]:
    """The generation settings say how an answer ends; the configuration is the older place."""
    path = directory / "generation_config.json"
    stated = _read_object(path).get("eos_token_id") if path.exists() else None
    ids = stated if stated is not None else getattr(config, "eos_token_id", None)
    ids = [] if ids is None else [ids] if isinstance(ids, int) else ids
    if not isinstance(ids, list) or not all(isinstance(id, int) for id in ids):
        raise ForerunError(f"token ids in eos_token_id of {directory}", repr(ids), "correct it or fetch it again")
    return tuple(ids)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ForerunError(f"JSON in {path}", str(error), "fetch the file again") from error
    if not isinstance(value, dict):
        raise ForerunError(f"a JSON object in {path}", f"a {type(value).__name__}", "fetch the file again")
    return value


def _stored_dtype(config: Any) -> str:
    return str(getattr(config, "dtype", None) or UNDISCLOSED).removeprefix("torch.")


def _combined_sha256(paths: list[Path]) -> str:
    if len(paths) == 1:
        return file_sha256(paths[0])
    return hashlib.sha256("".join(file_sha256(path) for path in paths).encode()).hexdigest()
