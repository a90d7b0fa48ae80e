"""Filling a decoder: every weight exactly once, nothing left over, nothing of the wrong shape."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from forerun.errors import ForerunError
from forerun.models.decoder import Decoder


class WeightSource(ABC):
    """Tensors of one checkpoint under Hugging Face names."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The file or directory, for error messages."""

    @property
    @abstractmethod
    def names(self) -> frozenset[str]:
        """Names that must all find a place; what a source leaves out on purpose isn't among them."""

    @abstractmethod
    def read(self, name: str) -> Tensor:
        """The tensor in whatever float type it is stored in."""


def fill(decoder: Decoder, source: WeightSource) -> None:
    """Loads all weights. Raises ForerunError for missing or surplus tensors, wrong shapes, NaN and infinity."""
    slots = decoder.weight_slots()
    if missing := sorted(slots.keys() - source.names):
        raise _mismatch(source, f"no {_some(missing)}")
    if surplus := sorted(source.names - slots.keys()):
        raise _mismatch(source, f"also {_some(surplus)}")
    for name, slot in slots.items():
        tensor = source.read(name)
        if tensor.shape != slot.shape:
            raise _mismatch(source, f"{name} of shape {list(tensor.shape)} where {list(slot.shape)} belongs")
        slot.copy_(tensor)
        if not slot.sum(dtype=torch.float32).isfinite():
            raise _mismatch(source, f"NaN or infinity in {name}")


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _mismatch(source: WeightSource, found: str) -> ForerunError:
    return ForerunError(
        f"the weights that the configuration of {source.label} describes", found, "fetch the model again"
    )
