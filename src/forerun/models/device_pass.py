"""One pass as it lies on the device, and the way there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DevicePass:
    """Everything that the layers of a pass read, so that no layer asks the host for anything.

    ``tokens``, ``positions`` and ``slots`` are int64 [rows], ``logit_rows`` int64 [n]; ``plans`` has the attention's
    layout for every window that a layer of the model has.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    logit_rows: Tensor
    plans: Mapping[int | None, Any]


def moved_together(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """int64 tensors of the host on ``device``, by one copy; the tensors themselves where that is the CPU.

    The host doesn't wait for a copy to CUDA or ROCm: it goes through pinned memory, in order with what follows.
    """
    if device.type == "cpu":
        return list(tensors)
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    is_pinned = device.type == "cuda"
    moved = (flat.pin_memory() if is_pinned else flat).to(device, non_blocking=is_pinned)
    parts = torch.split(moved, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
