"""Argmax with a promise about ties."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from forerun.errors import ForerunError
from forerun.sampling.host_logits import HostLogits, Logits, on_host


def argmax_lowest(rows: Logits) -> list[int]:
    """The lowest id among the largest entries of each row of ``rows`` [n, vocabulary]; torch.argmax promises no order.

    Raises:
        ForerunError: a row has a NaN, +inf or nothing above -inf.
    """
    if isinstance(rows, np.ndarray) or rows.is_cpu:
        ids, largest = _first_by_numpy(on_host(rows))
    else:
        ids, largest = _first_by_torch(rows)
    for row, value in enumerate(largest):
        require_drawable(value, f"row {row}")
    return ids


def _first_by_numpy(rows: HostLogits) -> tuple[list[int], list[float]]:
    # numpy promises the first of the largest, and the first NaN where there is one.
    ids: list[int] = rows.argmax(axis=1).tolist()
    return ids, [rows.item(row, token) for row, token in enumerate(ids)]


def _first_by_torch(rows: Tensor) -> tuple[list[int], list[float]]:
    # argmax may be any of the largest, but its value is the row's largest, NaN included.
    some = rows.argmax(dim=1, keepdim=True)
    largest = rows.gather(1, some)
    columns = torch.arange(rows.shape[1], device=rows.device)
    tied = torch.where(rows == largest, columns, rows.shape[1])
    return torch.minimum(tied.amin(dim=1), some[:, 0]).tolist(), largest[:, 0].tolist()


def require_drawable(largest: float, where: str) -> None:
    """Refuse a row whose largest logit is NaN, +inf or -inf, rather than draw some token from it."""
    if math.isfinite(largest):
        return
    if largest == -math.inf:
        raise ForerunError(
            f"a token that may be drawn in {where}", "every token banned", "relax the bias, the grammar or min_tokens"
        )
    raise ForerunError(f"finite logits in {where}", f"{largest}", "check the target's weights and dtype")
