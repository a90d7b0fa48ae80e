"""A linear whose weights stay the blocks of a GGUF file."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof

import torch
from torch import Tensor

from forerun.models.native.kernels import Kernels
from forerun.models.native.packed_linear import PackedLinear
from forerun.models.native.stored_blocks import Arrangement, StoredBlocks
from forerun.models.native.structs import BLOCKS, BlockPanelStruct, LinearStruct


class BlockLinear(PackedLinear):
    """``x @ weight.T + bias``: weights as shipped, ``x`` rounded to int8 per row and block of 32 inputs, sums fp32.

    Parts may have different formats, panel by panel.
    """

    def __init__(
        self, kernels: Kernels, parts: Sequence[StoredBlocks], arrangement: Arrangement, bias: Tensor | None = None
    ) -> None:
        """``bias`` is fp32 [out] in the order of the packed outputs. Raises ValueError for an infinite scale."""
        assert arrangement.panel_formats is not None
        num_inputs = parts[0].num_inputs
        sizes = [kernels.block_panel_bytes(format, num_inputs) for format in arrangement.panel_formats]
        self.weights = torch.zeros(sum(sizes), dtype=torch.uint8)
        self.bias = bias
        self._panels = (BlockPanelStruct * len(sizes))()
        at = self.weights.data_ptr()
        for panel, format, size in zip(self._panels, arrangement.panel_formats, sizes, strict=True):
            panel.format, panel.blocks = format, at
            at += size
        for part, first in zip(parts, arrangement.first, strict=True):
            kernels.pack_blocks(
                part.format, part.data, num_inputs, self._panels, first=first, stride=arrangement.stride
            )
        self.struct = LinearStruct(
            BLOCKS,
            arrangement.num_outputs,
            num_inputs,
            addressof(self._panels),
            None if bias is None else bias.data_ptr(),
        )
        self._kernels = kernels
