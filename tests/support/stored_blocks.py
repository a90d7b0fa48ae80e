"""Random matrices in every format of blocks that the kernels keep as shipped."""

from __future__ import annotations

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind

from forerun.errors import ForerunError
from forerun.models.native.build import PATHS
from forerun.models.native.kernels import Kernels, find_kernels
from forerun.models.native.stored_blocks import FORMATS, StoredBlocks

# Where a unit holds its half-precision numbers.
_HALVES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
NUMBER = {name: number for number, name in FORMATS.items()}


def random_blocks(
    name: str, num_outputs: int, num_inputs: int, *, seed: int = 0, scale: float | None = None
) -> StoredBlocks:
    """Any bytes, apart from the fp16 scales and mins: ``scale``, or random finite ones of either sign."""
    kind = Kind(NUMBER[name])
    block, size = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    units = generator.integers(0, 256, (num_outputs, num_inputs // block, size), dtype=np.uint8)
    for at in _HALVES.get(name, (0,)):
        halves = generator.normal(0, 0.02, units.shape[:2]) if scale is None else np.full(units.shape[:2], scale)
        units[..., at : at + 2] = halves.astype("<f2")[..., None].view(np.uint8)
    return StoredBlocks(kind.value, num_inputs, units.reshape(num_outputs, -1))


def dequantised(blocks: StoredBlocks) -> torch.Tensor:
    """The numbers that the ``gguf`` library reads, fp32 [out, in]."""
    return torch.tensor(gguf.dequantize(blocks.data, Kind(blocks.format)))


def runnable_kernels() -> list[Kernels]:
    """Every instruction set that is built and that this machine has."""
    found = []
    for path in PATHS:
        try:
            kernels = find_kernels(path)
        except ForerunError:
            continue
        if kernels is not None:
            found.append(kernels)
    return found
