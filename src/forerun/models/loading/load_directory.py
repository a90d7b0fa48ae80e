"""A Hugging Face directory as a target: the lean decoder where it has the family, otherwise the adapter."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer

from forerun.conditions import UNDISCLOSED, Artifact
from forerun.errors import ForerunError
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.families.registry import family_of_architecture
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.loading.safetensors_source import SafetensorsSource, weight_files
from forerun.models.loading.weights import fill
from forerun.models.pull import file_sha256
from forerun.models.tokenizer import Tokenizer


def load_directory(
    directory: Path, dtype: torch.dtype, device: torch.device, *, id: str | None = None, revision: str = UNDISCLOSED
) -> LoadedTarget:
    """Raises ForerunError for damaged or missing files and for architectures that neither path supports."""
    config = _read_config(directory)
    eos = _eos_token_ids(directory, config)
    target = load_directory_target(directory, config, dtype, device, eos)
    tokenizer = Tokenizer(_read_tokenizer(directory), label=directory.name, eos_token_ids=eos)
    artifact = Artifact(
        id=id or directory.name,
        revision=revision,
        hash=f"sha256:{_combined_sha256(weight_files(directory))}",
        quantisation=f"{_stored_dtype(config)}, computed in {str(dtype).removeprefix('torch.')}",
    )
    return LoadedTarget(target, tokenizer, artifact)


def load_directory_target(
    directory: Path, config: Any, dtype: torch.dtype, device: torch.device, eos_token_ids: tuple[int, ...] = ()
) -> Target:
    """The model alone. ``config`` is the directory's transformers configuration."""
    architecture = (getattr(config, "architectures", None) or ["unknown"])[0]
    family = family_of_architecture(architecture)
    if family is None:
        from forerun.models.adapter import load_adapter

        return load_adapter(directory, dtype=dtype, device=device)
    decoder_config = family.decoder_config(getattr(config, "text_config", config))
    decoder = Decoder(decoder_config, name=directory.name, dtype=dtype, device=device, eos_token_ids=eos_token_ids)
    fill(
        decoder,
        SafetensorsSource(directory, norm_offset=family.norm_offset, is_head_tied=decoder_config.is_head_tied),
    )
    decoder.pack()
    return decoder


def _read_config(directory: Path) -> Any:
    if not (directory / "config.json").exists():
        raise ForerunError(f"config.json in {directory}", "none", "give a model directory, a GGUF file or a hub id")
    try:
        return AutoConfig.from_pretrained(str(directory))
    except (ValueError, KeyError, TypeError, OSError) as error:
        reason = str(error).strip().splitlines() or ["unreadable"]
        raise ForerunError(
            f"a configuration in {directory} that transformers knows",
            reason[0],
            "fetch it again or update transformers",
        ) from error


def _read_tokenizer(directory: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(str(directory), use_fast=True)
    except (ValueError, KeyError, TypeError, OSError) as error:
        reason = str(error).strip().splitlines() or ["unreadable"]
        raise ForerunError(f"a tokenizer in {directory}", reason[0], "fetch tokenizer.json of the model") from error


def _eos_token_ids(directory: Path, config: Any) -> tuple[int, ...]:
    """The generation settings say how an answer ends; the configuration is the older place."""
    path = directory / "generation_config.json"
    stated = json.loads(path.read_text()).get("eos_token_id") if path.exists() else None
    ids = stated if stated is not None else getattr(config, "eos_token_id", None)
    return () if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)


def _stored_dtype(config: Any) -> str:
    return str(getattr(config, "dtype", None) or UNDISCLOSED).removeprefix("torch.")


def _combined_sha256(paths: list[Path]) -> str:
    if len(paths) == 1:
        return file_sha256(paths[0])
    return hashlib.sha256("".join(file_sha256(path) for path in paths).encode()).hexdigest()
