"""The model under test, with its prompts: a real one, or a tiny one whose logits are written down whole."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cache, cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from gguf import GGMLQuantizationType as Kind

from forerun.conditions import Artifact
from forerun.models.base import Target
from forerun.models.device import AS_SHIPPED
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from same_bytes.numbers import Numbers, weights_here
from same_bytes.prompts import Prompt, cut_prompts, shipped_texts
from support.faded_models import faded_model
from support.leaky_target import Leak, LeakyTarget
from support.tiny_gguf import write_gguf
from support.tiny_models import random_tokens

# By the end of a tensor's name.
TINY_BLOCKS = {
    "norm.weight": Kind.F32,
    "token_embd.weight": Kind.Q5_0,
    "attn_v.weight": Kind.Q8_0,
    "ffn_down.weight": Kind.Q5_1,
    "weight": Kind.Q4_1,
}


class Subject(ABC):
    """``records_logits``: whether whole rows of logits are compared, not just the log-probabilities reported."""

    name: str
    records_logits: bool

    @property
    def weights(self) -> list[str]:
        """Number types that its weights can be multiplied in here."""
        return weights_here()

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

    @property
    def weights(self) -> list[str]:
        """Only a GGUF file has blocks of its own."""
        is_gguf = self._artifact.quantisation.startswith("GGUF")
        return [weights for weights in weights_here() if is_gguf or weights != AS_SHIPPED]

    def model(self, numbers: Numbers) -> Target:
        return _loaded(self._source, numbers.weights).target

    def prompts(self, num_prompts: int) -> list[Prompt]:
        return cut_prompts(shipped_texts(_loaded(self._source, "auto").tokenizer), num_prompts)

    @cached_property
    def identity(self) -> str:
        return f"{self._artifact.id} {self._artifact.hash}"

    @cached_property
    def _artifact(self) -> Artifact:
        return _loaded(self._source, "auto").artifact


class TinySubject(Subject):
    """A faded random model in a file of blocks, on the kernels that the environment asks for.

    ``leak`` plants a fault in it.
    """

    name = "tiny-llama"
    identity = name
    records_logits = True

    def __init__(self, leak: Leak | None = None) -> None:
        self._leak = leak

    def model(self, numbers: Numbers) -> Target:
        return _tiny(numbers.weights, os.environ.get("FORERUN_KERNELS", "auto"))

    def target(self, numbers: Numbers) -> Target:
        model = self.model(numbers)
        return model if self._leak is None else LeakyTarget(model, self._leak)

    def prompts(self, num_prompts: int) -> list[Prompt]:
        """Patterns of three to nine tokens, repeated: retrieval needs something to find."""
        patterns = [random_tokens(3 + index % 7, seed=index) for index in range(num_prompts)]
        return cut_prompts([(pattern * 400)[:400] for pattern in patterns], num_prompts)


@lru_cache(maxsize=1)
def _loaded(source: str, dtype: str) -> LoadedTarget:
    """One at a time: fp32 weights of a real model take half a gigabyte."""
    with torch.no_grad():
        return load_target(source, dtype=dtype, device="cpu")


@cache
def _tiny(dtype: str, kernels: str) -> Target:
    """``kernels`` are those of the environment, by which targets are told apart."""
    model = faded_model("llama", hidden_size=64, intermediate_size=96)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "tiny.gguf"
        write_gguf(file, model, "llama", TINY_BLOCKS)
        return load_target(file, dtype=dtype, device="cpu").target
