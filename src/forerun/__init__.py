"""Speculative decoding under one contract, and a tuner that says what pays.

from forerun import Drafting, Engine, SamplingParams
engine = Engine("smollm2-135m", Drafting("suffix", 7))
(completion,) = engine.generate("Once upon a time", SamplingParams(max_tokens=64))
print(completion.text, completion.counts)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forerun.engine.drafting import Drafting
    from forerun.engine.engine import Engine
    from forerun.engine.request import Completion
    from forerun.errors import ForerunError
    from forerun.models.loading.load_target import load_target
    from forerun.sampling.params import SamplingParams

__all__ = ["Completion", "Drafting", "Engine", "ForerunError", "SamplingParams", "load_target"]

# Looked up on first use, so that `import forerun` and `forerun --help` load no torch and touch no device.
_HOMES = {
    "Completion": "forerun.engine.request",
    "Drafting": "forerun.engine.drafting",
    "Engine": "forerun.engine.engine",
    "ForerunError": "forerun.errors",
    "SamplingParams": "forerun.sampling.params",
    "load_target": "forerun.models.loading.load_target",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'forerun' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
