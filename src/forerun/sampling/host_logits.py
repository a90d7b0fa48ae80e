"""Logits where the sampler looks at them: as numpy in this machine's memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

HostLogits = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Logits = Tensor | HostLogits
"""Rows or one row as a target gives them."""


def on_host(logits: Logits) -> HostLogits:
    """``logits`` as numpy; nothing is copied where they are fp32 or float64 in this machine's memory already."""
    if isinstance(logits, np.ndarray):
        return logits
    # Rows in half precision are exact in fp32.
    exact = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    host: HostLogits = exact.numpy(force=True)
    return host
