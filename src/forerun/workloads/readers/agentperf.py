"""agentperf-local: recorded agent sessions, one row per model turn (format version 1 of that package, 0.3.4).

A manifest lists tasks and the trace of each; a trace row holds the whole request: messages and tools in OpenAI shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from pydantic import Field, field_validator

from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader, has_fields
from forerun.workloads.readers.openai_shape import MessageShape, ToolShape
from forerun.workloads.readers.rows import Row, parse_rows, read_bytes

FORMAT_VERSION = 1


class _Versioned(LooseRow):
    version: int

    @field_validator("version")
    @classmethod
    def _is_known(cls, version: int) -> int:
        if version != FORMAT_VERSION:
            raise ValueError(f"format version {FORMAT_VERSION} is known, found {version}")
        return version


class TraceRow(_Versioned):
    """One model turn."""

    turn_id: str = Field(min_length=1)
    conversation_id: str = Field(min_length=1)
    messages: list[MessageShape] = Field(min_length=1)
    tools: list[ToolShape] = Field(default_factory=list)
    target_output_tokens: int | None = Field(default=None, ge=0)
    max_output_tokens: int | None = Field(default=None, ge=1)


class ManifestTask(LooseRow):
    """One task: its trace, relative to the manifest, and the number of model turns in it."""

    task_id: str = Field(min_length=1)
    trace: str = Field(min_length=1)
    model_calls: int = Field(ge=0)

    @field_validator("trace")
    @classmethod
    def _stays_inside(cls, trace: str) -> str:
        path = PurePosixPath(trace)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError("a trace must lie below its manifest")
        return trace


class Manifest(_Versioned):
    """All tasks of a replay."""

    name: str
    tasks: list[ManifestTask] = Field(min_length=1)


class TraceReader(Reader):
    """One prompt per model turn; the recorded output length is the prompt's ``max_tokens``."""

    name: ClassVar[str] = "agentperf_trace"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By turn and conversation."""
        return has_fields(rows, "turn_id", "conversation_id", "messages")

    def parse(self, row: Row) -> Prompt:
        """One turn."""
        turn = row.parsed(TraceRow)
        return Prompt(
            id=turn.turn_id,
            workload="agent",
            messages=tuple(message.build() for message in turn.messages),
            tools=tuple(tool.build() for tool in turn.tools),
            session=turn.conversation_id,
            max_tokens=turn.target_output_tokens or turn.max_output_tokens,
            source="agentperf",
        )


class ManifestReader(Reader):
    """The turns of every trace that the manifest lists, task by task."""

    name: ClassVar[str] = "agentperf_manifest"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By its mode and tasks."""
        return has_fields(rows, "tasks", "mode", "version")

    def parse(self, row: Row) -> Prompt:
        """A manifest row is no prompt; ``read`` follows it to its traces."""
        raise row.error("a manifest, whose prompts lie in its traces", "read it with read_prompts")

    def read(self, rows: Sequence[Row], folder: Path) -> list[Prompt]:
        """Raises ``ForerunError`` where a trace is missing, or doesn't hold the number of turns that it should."""
        reader = TraceReader()
        prompts: list[Prompt] = []
        for row in rows:
            for task in row.parsed(Manifest).tasks:
                path = folder / task.trace
                turns = reader.read(parse_rows(read_bytes(path), path.name), path.parent)
                if len(turns) != task.model_calls:
                    raise row.error(f"{len(turns)} turns in {task.trace} where the manifest says {task.model_calls}")
                prompts += turns
        return prompts
