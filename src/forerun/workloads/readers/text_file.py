"""Plain text: one prompt per paragraph, or a whole file as one prompt."""

from __future__ import annotations

import re

from forerun.errors import ForerunError
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt

_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


def paragraphs(text: str, file: str) -> list[Prompt]:
    """Each run of lines between blank lines is a user turn. Raises ``ForerunError`` where there is none."""
    parts = [part.strip("\n") for part in _BLANK_LINES.split(text.replace("\r\n", "\n")) if part.strip()]
    if not parts:
        raise ForerunError(f"at least one paragraph in {file}", "none", "write one prompt per paragraph")
    return [_prompt(f"{file}:{number}", part) for number, part in enumerate(parts, 1)]


def whole_file(text: str, file: str) -> list[Prompt]:
    """The whole file as one user turn. Raises ``ForerunError`` where it is blank."""
    if not text.strip():
        raise ForerunError(f"text in {file}", "none", "write the prompt into the file")
    return [_prompt(file, text)]


def _prompt(prompt_id: str, text: str) -> Prompt:
    return Prompt(prompt_id, "prompts", (Message("user", text),), source="text")
