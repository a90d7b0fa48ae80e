"""Where the comparison ran: the promise holds within one machine, build and kernel path."""

from __future__ import annotations

import torch

from forerun.models.device import describe_device
from forerun.models.native.kernels import find_kernels


def machine() -> str:
    """Processor, torch and what computes the passes."""
    device = describe_device(torch.device("cpu"))
    kernels = find_kernels()
    return f"{device.name}, torch {torch.__version__}, {device.driver}, kernels {kernels.path if kernels else 'torch'}"
