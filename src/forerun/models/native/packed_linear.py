"""A linear's weights in the kernels' own layout."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from forerun.models.native.kernels import Kernels
from forerun.models.native.structs import KINDS, LinearStruct

PANEL = 16


class PackedLinear:
    """``x @ weight.T + bias`` with fp32 in and out; weights keep their number type, sums are fp32.

    ``struct`` points into memory that this object holds.
    """

    def __init__(self, kernels: Kernels, parts: Sequence[Tensor], biases: Sequence[Tensor | None], dtype: torch.dtype):
        """``parts`` [out, in] lie one below the other; with two of them, panels of ``PANEL`` outputs take turns.

        Numbers of fp32 that are all bf16 are kept as such where the kernels give the same bits: half the memory.
        Interleaved parts are padded to whole panels, so the outputs are as many as the panels hold.
        """
        num_inputs = parts[0].shape[1]
        rows = [part.shape[0] for part in parts]
        padded = rows if len(parts) == 1 else [-(-count // PANEL) * PANEL for count in rows]
        if dtype is torch.float32 and not kernels.rounds_rows and all(map(_is_bf16, parts)):
            dtype = torch.bfloat16
        kind = KINDS[dtype]
        self.weights = torch.zeros(kernels.packed_bytes(kind, sum(padded), num_inputs), dtype=torch.uint8)
        for index, part in enumerate(parts):
            kernels.pack(kind, part.to(dtype).contiguous(), self.weights, first=index, stride=len(parts))
        self.bias = self.joined(biases)
        self.struct = LinearStruct(
            kind,
            sum(padded),
            num_inputs,
            self.weights.data_ptr(),
            None if self.bias is None else self.bias.data_ptr(),
        )
        self._kernels = kernels

    @staticmethod
    def joined(biases: Sequence[Tensor | None]) -> Tensor | None:
        """Biases of the parts, as the packed outputs lie: fp32 [out], or None where there are none."""
        parts = [bias.float() for bias in biases if bias is not None]
        if len(parts) < 2:
            return parts[0].contiguous() if parts else None
        padded = [F.pad(part, (0, -len(part) % PANEL)) for part in parts]
        return torch.stack([part.view(-1, PANEL) for part in padded], 1).flatten()

    @property
    def weight_bytes(self) -> int:
        """Memory of the packed weights and the bias."""
        return self.weights.nbytes + (0 if self.bias is None else self.bias.nbytes)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., in] -> fp32 [..., out]."""
        flat = x.reshape(-1, x.shape[-1])
        return self._kernels.run_linear(self.struct, flat).view(*x.shape[:-1], -1)

    def rows(self, ids: Tensor) -> Tensor:
        """Weight rows ``ids`` as fp32 [n, in]."""
        return self._kernels.unpack_rows(self.struct, ids)


def _is_bf16(weight: Tensor) -> bool:
    """Whether every number of ``weight`` [out, in], as fp32, is one of bf16: the lower half of its bits is zero."""
    return not any(bool((rows.float().view(torch.int32) & 0xFFFF).any()) for rows in weight.chunk(16))
