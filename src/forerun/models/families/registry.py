"""The families, in one list."""

from __future__ import annotations

from forerun.models.families.family import Family
from forerun.models.families.gemma3 import GEMMA3
from forerun.models.families.llama import LLAMA
from forerun.models.families.mistral import MISTRAL
from forerun.models.families.qwen2 import QWEN2
from forerun.models.families.qwen3 import QWEN3

FAMILIES = (LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA3)


def family_of_architecture(architecture: str) -> Family | None:
    """The family whose checkpoints name this class, if the lean decoder has it."""
    return next((family for family in FAMILIES if architecture in family.architectures), None)


def family_of_gguf(architecture: str) -> Family | None:
    """The family behind ``general.architecture`` of a GGUF file, if the lean decoder has it."""
    return next((family for family in FAMILIES if family.gguf_architecture == architecture != ""), None)
