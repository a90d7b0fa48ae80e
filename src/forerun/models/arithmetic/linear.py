"""Weights of a linear layer, plain or laid out for the CPU's vector and matrix units."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

# Rows that a packed weight is laid out for; it serves any number.
PACKED_FOR = 16


class Linear(nn.Module, ABC):
    """``x @ weight.T + bias``. ``weight`` is [out, in]; inputs are cast to its number type, and the result has it."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.num_outputs = weight.shape[0]
        self.dtype = weight.dtype
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self._packed: Tensor | None = None

    def pack(self) -> None:
        """Lays the weight out for the machine: a third less time, rows as independent as before.

        The plain weight is given up, so load first. Does nothing where torch has no such layout.
        """
        is_packable = self.weight.device.type == "cpu" and self.dtype in (torch.bfloat16, torch.float32)
        if is_packable and _has_packed_linears(self.dtype):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.data, PACKED_FOR)
            self.give_up_weight()

    def give_up_weight(self) -> None:
        """Frees the plain weight, after which it lives packed, here or elsewhere."""
        self.weight = nn.Parameter(self.weight.new_empty(0), requires_grad=False)

    @property
    def packed_bytes(self) -> int:
        """Memory of the packed weight; 0 while the weight is plain, a parameter as any other."""
        return 0 if self._packed is None else self._packed.nbytes

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        flat = x.reshape(-1, x.shape[-1]).to(self.dtype)
        return self._rows(flat).view(*x.shape[:-1], self.num_outputs)

    @abstractmethod
    def _rows(self, x: Tensor) -> Tensor:
        """[rows, in] -> [rows, out]."""

    def _product(self, x: Tensor) -> Tensor:
        """One product of all rows of ``x`` [rows, in]."""
        if self._packed is None:
            return self._plain_product(x)
        packed: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return packed

    @abstractmethod
    def _plain_product(self, x: Tensor) -> Tensor:
        """The same by the plain weight."""


def _has_packed_linears(dtype: torch.dtype) -> bool:
    """Whether oneDNN's linears are there. Only its x86 kernels were found to keep a row's bits at any thread count."""
    is_there = platform.machine() in ("x86_64", "AMD64") and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    return is_there and (dtype is torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))
