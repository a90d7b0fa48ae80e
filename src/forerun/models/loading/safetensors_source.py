"""Weights of a Hugging Face directory: one safetensors file, or several with an index."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from forerun.errors import ForerunError
from forerun.models.loading.weights import WeightSource

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

# Names before the blocks differ between text models and the text half of multimodal ones.
_TEXT_PREFIX = re.compile(r"^(?:model\.)?language_model\.(?:model\.)?")
# Towers for other senses, and buffers that old checkpoints saved though they follow from the configuration.
_LEFT_OUT = re.compile(r"(^|\.)(vision_tower|multi_modal_projector)\.|rotary_emb\.inv_freq$|\.masked_bias$")
_NORM = re.compile(r"norm\.weight$")
_NUMBER_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class SafetensorsSource(WeightSource):
    """Lazily reads a directory; ``norm_offset`` is added to norm weights, a tied head in the file is left out."""

    def __init__(self, directory: Path, *, norm_offset: float = 0.0, is_head_tied: bool = False) -> None:
        self._directory = directory
        self._norm_offset = norm_offset
        self._places: dict[str, tuple[Path, str]] = {}
        for path in weight_files(directory):
            for stored in self._stored_names(path):
                name = _canonical(stored)
                if not _LEFT_OUT.search(stored) and not (is_head_tied and name == "lm_head.weight"):
                    self._places[name] = (path, stored)

    @property
    def label(self) -> str:
        """See ``WeightSource``."""
        return str(self._directory)

    @property
    def names(self) -> frozenset[str]:
        """See ``WeightSource``."""
        return frozenset(self._places)

    def read(self, name: str) -> Tensor:
        """See ``WeightSource``. Raises ForerunError for a damaged file."""
        path, stored = self._places[name]
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(stored)
        except (SafetensorError, OSError) as error:
            raise _damaged(path, error) from error
        return tensor.float() + self._norm_offset if self._norm_offset and _NORM.search(name) else tensor

    @staticmethod
    def _stored_names(path: Path) -> list[str]:
        try:
            with safe_open(path, framework="pt") as file:
                return list(file.keys())
        except (SafetensorError, OSError) as error:
            raise _damaged(path, error) from error


def stored_number_type(directory: Path) -> torch.dtype | None:
    """What most matrices are stored as, whatever the configuration says; None for anything but fp32, fp16 and bf16.

    Raises ForerunError for a missing or damaged file.
    """
    kinds: Counter[str] = Counter()
    for path in weight_files(directory):
        try:
            with safe_open(path, framework="pt") as file:
                slices = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118
                kinds.update(part.get_dtype() for part in slices if len(part.get_shape()) > 1)
        except (SafetensorError, OSError) as error:
            raise _damaged(path, error) from error
    return _NUMBER_TYPES.get(max(kinds, key=lambda kind: kinds[kind], default=""))


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a checkpoint, in order. Raises ForerunError where there is none or one is missing."""
    index = directory / INDEX_FILE
    if index.exists():
        try:
            shards = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError) as error:
            raise _damaged(index, error) from error
        files = [directory / shard for shard in shards]
    else:
        files = [directory / SINGLE_FILE]
    for path in files:
        if not path.exists():
            raise ForerunError(
                f"{path.name} in {directory}",
                "no such file",
                "fetch the model again (weights must be safetensors or GGUF)",
            )
    return files


def _canonical(stored: str) -> str:
    if stored.startswith("language_model.lm_head."):
        return stored.removeprefix("language_model.")
    return _TEXT_PREFIX.sub("model.", stored)


def _damaged(path: Path, error: Exception) -> ForerunError:
    return ForerunError(f"a whole safetensors checkpoint at {path}", str(error).strip(), "fetch the file again")
