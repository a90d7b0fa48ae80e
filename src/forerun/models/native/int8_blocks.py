"""Rounding a matrix to blocks of int8, in the form that GGUF files have them (Q8_0)."""

from __future__ import annotations

import torch
from torch import Tensor

from forerun.models.native.stored_blocks import BLOCK, StoredBlocks

Q8_0 = 8


def rounded_to_int8(weight: Tensor) -> StoredBlocks:
    """``weight`` fp32 [out, in], whose inputs are whole blocks; a block's scale is its largest magnitude / 127 in fp16.

    Numbers are rounded with the scale as it is stored, half to even. A block beyond fp16's range gets an infinite
    scale, which packing refuses.
    """
    num_outputs, num_inputs = weight.shape
    blocks = weight.view(num_outputs, -1, BLOCK)
    scales = (blocks.abs().amax(-1, keepdim=True) / 127).half()
    # A block of zeros, or of numbers too small for any fp16 scale, is zero at any divisor.
    divisors = scales.float().masked_fill(scales == 0, 1.0)
    numbers = (blocks / divisors).round().clamp(-127, 127).to(torch.int8)
    data = torch.cat([scales.view(torch.uint8), numbers.view(torch.uint8)], -1)
    return StoredBlocks(Q8_0, num_inputs, data.view(num_outputs, -1).numpy())
