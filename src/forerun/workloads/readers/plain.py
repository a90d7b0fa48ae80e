"""One's own traffic: JSONL rows with ``prompt``, ``messages`` or ``text``. The shipped prompts are written so too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import ConfigDict, Field, model_validator

from forerun.workloads.checkers.spec import CheckerSpec
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader
from forerun.workloads.readers.openai_shape import MessageShape, ToolShape
from forerun.workloads.readers.rows import Row


class PlainRow(LooseRow):
    """Exactly one of ``prompt`` (a user turn), ``messages`` (a chat), ``text`` (continued as it is); the rest is free.

    Fields that aren't listed here are let pass, so that a request log can be read as it is.
    """

    model_config = ConfigDict(extra="ignore", strict=False)

    id: str | int | None = None
    workload: str | None = Field(default=None, min_length=1)
    prompt: str | None = None
    messages: list[MessageShape] | None = None
    text: str | None = None
    tools: list[ToolShape] = Field(default_factory=list)
    checker: CheckerSpec | None = None
    reference: str | None = None
    session: str = ""
    max_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _has_one_input(self) -> PlainRow:
        given = [name for name in ("prompt", "messages", "text") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"one of prompt, messages, text is needed, given: {', '.join(given) or 'none'}")
        value = getattr(self, given[0])
        if not value or (isinstance(value, str) and not value.strip()):
            raise ValueError(f"{given[0]} is empty")
        return self

    def chat(self) -> tuple[Message, ...]:
        """The messages; empty for raw text."""
        if self.prompt is not None:
            return (Message("user", self.prompt),)
        return tuple(message.build() for message in self.messages or ())


class PlainReader(Reader):
    """Rows without an id are named after file and line; without a workload, ``workload``."""

    name: ClassVar[str] = "plain"

    def __init__(self, workload: str = "prompts", source: str = "plain") -> None:
        self._workload = workload
        self._source = source

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By any of the three inputs."""
        return any(name in rows[0].fields for name in ("prompt", "messages", "text"))

    def parse(self, row: Row) -> Prompt:
        """The prompt of one row."""
        parsed = row.parsed(PlainRow)
        tools = tuple(tool.build() for tool in parsed.tools)
        try:
            checker = parsed.checker.build(tools) if parsed.checker else None
        except ValueError as error:
            raise row.error(str(error)) from error
        return Prompt(
            id=f"{row.file}:{row.line}" if parsed.id is None else str(parsed.id),
            workload=parsed.workload or self._workload,
            messages=parsed.chat(),
            text=parsed.text,
            tools=tools,
            checker=checker,
            reference=parsed.reference,
            session=parsed.session,
            max_tokens=parsed.max_tokens,
            source=self._source,
        )
