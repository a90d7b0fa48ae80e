"""Messages and tools in the OpenAI wire shape, as rows carry them."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from forerun.workloads.message import Message, ToolCall
from forerun.workloads.tool import Tool


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore")


class FunctionShape(_Shape):
    """The function of a recorded call; arguments are JSON text or an object."""

    name: str = Field(min_length=1)
    arguments: str | dict[str, Any] = "{}"


class ToolCallShape(_Shape):
    """A recorded call."""

    id: str | None = None
    function: FunctionShape

    def build(self) -> ToolCall:
        """The frozen call."""
        arguments = self.function.arguments
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return ToolCall(self.function.name, text, self.id or "")


class TextPart(_Shape):
    """A part of a message; only text is known here."""

    type: Literal["text"]
    text: str


class MessageShape(_Shape):
    """One message; content may be text, text parts, or absent where calls stand."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[ToolCallShape] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> MessageShape:
        if self.content is None and not self.tool_calls:
            raise ValueError(f"a {self.role} message without content or calls")
        return self

    def build(self) -> Message:
        """The frozen message; the developer role is the system role by its newer name."""
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        role = "system" if self.role == "developer" else self.role
        return Message(role, text, tuple(call.build() for call in self.tool_calls or ()), self.tool_call_id or "")


class ToolFunctionShape(_Shape):
    """The definition inside a tool."""

    name: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class ToolShape(_Shape):
    """A tool definition, with or without the ``function`` wrapper."""

    function: ToolFunctionShape

    @model_validator(mode="before")
    @classmethod
    def _wrapped(cls, value: Any) -> Any:
        is_bare = isinstance(value, dict) and "function" not in value
        return {"function": value} if is_bare else value

    def build(self) -> Tool:
        """The frozen tool."""
        return Tool(self.function.name, self.function.description, self.function.parameters)
