"""The model under test, with its prompts: a real one, or a tiny one whose logits are written down whole."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from pathlib import Path

import torch

from forerun.conditions import Artifact
from forerun.models.base import Target
from forerun.models.device import DTYPES
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from same_bytes.numbers import Numbers
from same_bytes.prompts import Prompt, cut_prompts, shipped_texts
from support.faded_models import faded_target_on
from support.leaky_target import Leak, LeakyTarget
from support.tiny_models import random_tokens


class Subject(ABC):
    """``records_logits``: whether whole rows of logits are compared, not just the log-probabilities reported."""

    name: str
    records_logits: bool

    @abstractmethod
    def model(self, numbers: Numbers) -> Target:
        """The model itself."""

    @abstractmethod
    def prompts(self, num_prompts: int) -> list[Prompt]:
        """The same ones every time."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Which weights these are."""

    def target(self, numbers: Numbers) -> Target:
        """What the engine drives."""
        return self.model(numbers)


class LoadedSubject(Subject):
    """Whatever ``load_target`` can load as a lean decoder: a path or a catalog name."""

    records_logits = False

    def __init__(self, source: str) -> None:
        self._source = source
        self.name = Path(source).stem

    def model(self, numbers: Numbers) -> Target:
        return _loaded(self._source, numbers.weights).target

    def prompts(self, num_prompts: int) -> list[Prompt]:
        return cut_prompts(shipped_texts(_loaded(self._source, "auto").tokenizer), num_prompts)

    @cached_property
    def identity(self) -> str:
        artifact: Artifact = _loaded(self._source, "auto").artifact
        return f"{artifact.id} {artifact.hash}"


class TinySubject(Subject):
    """A faded random model on the kernels that the environment asks for; ``leak`` plants a fault in it."""

    records_logits = True

    def __init__(self, family: str = "llama", leak: Leak | None = None) -> None:
        self.name = f"tiny-{family}"
        self._family = family
        self._leak = leak

    def model(self, numbers: Numbers) -> Target:
        return faded_target_on(os.environ.get("FORERUN_KERNELS", "auto"), self._family, DTYPES[numbers.weights])

    def target(self, numbers: Numbers) -> Target:
        model = self.model(numbers)
        return model if self._leak is None else LeakyTarget(model, self._leak)

    def prompts(self, num_prompts: int) -> list[Prompt]:
        """Patterns of three to nine tokens, repeated: retrieval needs something to find."""
        patterns = [random_tokens(3 + index % 7, seed=index) for index in range(num_prompts)]
        return cut_prompts([(pattern * 400)[:400] for pattern in patterns], num_prompts)

    @cached_property
    def identity(self) -> str:
        return self.name


@lru_cache(maxsize=1)
def _loaded(source: str, dtype: str) -> LoadedTarget:
    """One at a time: fp32 weights of a real model take half a gigabyte."""
    with torch.no_grad():
        return load_target(source, dtype=dtype)
