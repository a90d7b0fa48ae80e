"""A method's entry in the registry, and what a builder is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from forerun.drafters.base import Drafter, MethodInfo, TargetView
from forerun.models.base import Target
from forerun.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A second language model with its tokenizer, loaded by whoever owns devices and paths."""

    target: Target
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a drafter may need besides its knobs; a method takes what it uses and refuses to build without it.

    ``num_slots`` is how many positions a drafter with keys and values of its own may hold over all requests,
    ``kv_dtype`` in which number type (None: that of its weights).
    """

    view: TargetView | None = None
    tokenizer: Tokenizer | None = None
    draft_model: DraftModel | None = None
    num_slots: int = 65_536

    @property
    def vocab_size(self) -> int | None:
        """The target's, where it is known."""
        return None if self.view is None else self.view.target.traits.vocab_size

    kv_dtype: torch.dtype | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """How a method is described, configured and built. ``config`` is a frozen dataclass of knobs with defaults."""

    info: MethodInfo
    config: type[Any]
    build: Callable[[Any, BuildContext], Drafter[Any]]
