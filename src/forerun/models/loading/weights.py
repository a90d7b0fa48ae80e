"""Filling a decoder: every weight exactly once, nothing left over, nothing of the wrong shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set

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
    check_names(slots.keys(), source)
    for name, slot in slots.items():
        fill_slot(name, slot, source)


def check_names(names: Set[str], source: WeightSource) -> None:
    """Raises ForerunError unless the source has exactly these tensors."""
    if missing := sorted(names - source.names):
        raise mismatch(source, f"no {_some(missing)}")
    if surplus := sorted(source.names - names):
        raise mismatch(source, f"also {_some(surplus)}")


def fill_slot(name: str, slot: Tensor, source: WeightSource) -> None:
    """Loads one tensor. Raises ForerunError for a wrong shape, NaN and infinity."""
    tensor = source.read(name)
    if tensor.shape != slot.shape:
        raise wrong_shape(source, name, tensor.shape, slot.shape)
    slot.copy_(tensor)
    if not slot.sum(dtype=torch.float32).isfinite():
        raise mismatch(source, f"NaN or infinity in {name}")


def wrong_shape(source: WeightSource, name: str, found: Sequence[int], expected: Sequence[int]) -> ForerunError:
    """For a tensor of another shape than the configuration gives it."""
    return mismatch(source, f"{name} of shape {list(found)} where {list(expected)} belongs")


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def mismatch(source: WeightSource, found: str) -> ForerunError:
    """For weights that aren't those of the configuration."""
    return ForerunError(
        f"the weights that the configuration of {source.label} describes", found, "fetch the model again"
    )
