"""A model on kernels that are named, within one process."""

from __future__ import annotations

import os

from forerun.models.base import Target
from forerun.models.loading.load_target import load_target


def load_on(kernels: str, model: str, dtype: str = "bf16") -> Target:
    """``kernels`` as FORERUN_KERNELS has it, whose value is put back. Raises ForerunError for what can't run here."""
    before = os.environ.get("FORERUN_KERNELS")
    os.environ["FORERUN_KERNELS"] = kernels
    try:
        return load_target(model, dtype=dtype).target
    finally:
        del os.environ["FORERUN_KERNELS"]
        if before is not None:
            os.environ["FORERUN_KERNELS"] = before
