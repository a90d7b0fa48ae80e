"""A linear layer as torch computes it: one product of all rows."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from forerun.models.arithmetic.linear import Linear


class UntiledLinear(Linear):
    """A row's bits depend on how many rows are beside it."""

    def _rows(self, x: Tensor) -> Tensor:
        return self._product(x) if len(x) else x.new_zeros(0, self.num_outputs)

    def _plain_product(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)
