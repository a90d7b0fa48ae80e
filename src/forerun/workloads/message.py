"""Chat messages in the OpenAI shape, frozen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an assistant made in an earlier turn; ``arguments`` is its JSON text, as recorded."""

    name: str
    arguments: str
    id: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For chat templates, which want the arguments as an object; text that isn't one is handed over as it is."""
        try:
            arguments = json.loads(self.arguments)
        except json.JSONDecodeError:
            arguments = self.arguments
        call: dict[str, Any] = {"type": "function", "function": {"name": self.name, "arguments": arguments}}
        if self.id:
            call["id"] = self.id
        return call


@dataclass(frozen=True, slots=True)
class Message:
    """One turn: a role (system, user, assistant, tool), its text and, for assistants, the calls made."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The shape that chat templates take; empty fields are left out."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [call.as_dict() for call in self.tool_calls]
        if self.tool_call_id:
            message["tool_call_id"] = self.tool_call_id
        return message
