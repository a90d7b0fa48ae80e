"""Builds adapter targets: from a directory, or around a model that is already in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from forerun.errors import ForerunError
from forerun.models.adapter.adapter_target import AdapterTarget
from forerun.models.adapter.architecture import SUPPORTED, check_class
from forerun.models.adapter.neighbour_check import check_neighbours


def adapt(model: Any, name: str | None = None) -> AdapterTarget:
    """A target around a Hugging Face causal LM, which from then on serves it alone (its attention is replaced).

    Raises ``ForerunError`` naming the architecture where it can't be driven.
    """
    check_class(type(model), model.config)
    model.eval().requires_grad_(False)
    target = AdapterTarget(model, name or type(model).__name__, _eos_token_ids(model))
    check_neighbours(target)
    return target


def load_adapter(directory: str | Path, *, dtype: torch.dtype, device: torch.device | str) -> AdapterTarget:
    """Loads a Hugging Face directory (safetensors) and adapts it. The class is checked before any weight is read."""
    config = _read(AutoConfig.from_pretrained, directory)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ForerunError(SUPPORTED, f"{config.model_type}, which has no causal LM", "choose another target")
    check_class(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], config)
    model, report = _read(
        AutoModelForCausalLM.from_pretrained, directory, dtype=dtype, use_safetensors=True, output_loading_info=True
    )
    damaged = [*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])]
    if damaged:
        raise ForerunError(
            f"every weight of {type(model).__name__} in {directory}",
            f"{len(damaged)} missing or of another shape, such as {min(damaged)}",
            "fetch the model again",
        )
    return adapt(model.to(device), Path(directory).name)


def _read(from_pretrained: Callable[..., Any], directory: str | Path, **options: Any) -> Any:
    """What the library reads from a directory, its errors as one line."""
    try:
        return from_pretrained(directory, local_files_only=True, **options)
    except (ValueError, KeyError, OSError, RuntimeError, SafetensorError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ForerunError(f"a Hugging Face model in {directory}", reason, "fetch the model again") from error


def _eos_token_ids(model: Any) -> tuple[int, ...]:
    """End tokens of the generation settings, else of the config."""
    generation = getattr(model, "generation_config", None)
    ids = getattr(generation, "eos_token_id", None)
    if ids is None:
        ids = getattr(model.config.get_text_config(decoder=True), "eos_token_id", None)
    return () if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)
