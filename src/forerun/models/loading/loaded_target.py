"""A target ready to run, with its tokenizer and a description of what was loaded."""

from __future__ import annotations

from dataclasses import dataclass

from forerun.conditions import Artifact
from forerun.models.base import Target
from forerun.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """What ``load_target`` returns; ``artifact`` goes into the conditions of every measurement."""

    target: Target
    tokenizer: Tokenizer
    artifact: Artifact
