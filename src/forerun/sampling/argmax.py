"""Argmax with a promise about ties."""

from __future__ import annotations

import torch
from torch import Tensor

from forerun.errors import ForerunError


def argmax_lowest(rows: Tensor) -> list[int]:
    """The lowest id among the largest entries of each row of ``rows`` [n, vocabulary]; torch.argmax promises no order.

    Raises:
        ForerunError: a row has a NaN, +inf or nothing above -inf.
    """
    if rows.device.type == "cpu":
        # numpy's argmax is the first of the largest, by its documentation, and the first NaN where there is one.
        exact = rows.detach() if rows.dtype == torch.float64 else rows.detach().float()
        ids = torch.from_numpy(exact.numpy().argmax(axis=1))
        largest = rows.gather(1, ids[:, None])[:, 0]
    else:
        largest = rows.amax(dim=1)
        columns = torch.arange(rows.shape[1], device=rows.device)
        ids = torch.where(rows == largest[:, None], columns, rows.shape[1]).amin(dim=1)
    for row, value in enumerate(largest.tolist()):
        require_drawable(value, f"row {row}")
    return [int(token) for token in ids.tolist()]


def require_drawable(largest: float, where: str) -> None:
    """Refuse a row whose largest logit is NaN, +inf or -inf, rather than draw some token from it."""
    if largest != largest or largest == float("inf"):
        raise ForerunError(
            f"finite logits in {where}",
            f"{largest}",
            "check the target's weights and dtype",
        )
    if largest == float("-inf"):
        raise ForerunError(
            f"a token that may be drawn in {where}", "every token banned", "relax the bias, the grammar or min_tokens"
        )
