"""Our own engine as a backend over targets that need no download: texts are numbers, one token each."""

from __future__ import annotations

from tokenizers import Tokenizer as Rust
from tokenizers import models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from forerun.backends.own.backend import OwnBackend
from forerun.conditions import Artifact
from forerun.models.base import Target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.tokenizer import Tokenizer
from forerun.workloads.prompt import Prompt
from support.fake_backend import chance


def number_tokenizer(vocab_size: int) -> Tokenizer:
    """``"3 1 2"`` is the ids 3, 1, 2."""
    rust = Rust(models.WordLevel({str(index): index for index in range(vocab_size)}, unk_token="0"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=rust), label="numbers")


def loaded(target: Target, name: str = "toy") -> LoadedTarget:
    return LoadedTarget(target, number_tokenizer(target.traits.vocab_size), Artifact(id=name))


def backend_of(target: Target, **drafters: Target) -> OwnBackend:
    return OwnBackend(loaded(target), {name: loaded(drafter, name) for name, drafter in drafters.items()})


def prompts_of(count: int, vocab_size: int, *, workload: str = "toy", length: int = 12) -> tuple[Prompt, ...]:
    """Random numbers, ``length`` and a few more tokens each."""
    return tuple(
        Prompt(
            f"{workload}-{index}",
            workload,
            text=" ".join(str(int(chance(workload, index, at) * vocab_size)) for at in range(length + index % 5)),
        )
        for index in range(count)
    )
