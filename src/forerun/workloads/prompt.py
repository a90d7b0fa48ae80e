"""One prompt: what the model is given, and how its answer can be checked."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from forerun.workloads.checkers.base import Checker, CheckResult
from forerun.workloads.message import Message
from forerun.workloads.tool import Tool


@dataclass(frozen=True, slots=True)
class Prompt:
    """Either chat ``messages`` or raw ``text`` that the model continues without a chat template.

    ``later_turns`` are user turns to be sent after the model's own answers (MT-Bench, Spec-Bench). ``reference`` is an
    answer known to be right, ``session`` names the conversation that a recorded turn belongs to, ``max_tokens`` the
    output length that the source asks for, ``source`` where the prompt comes from.
    """

    id: str
    workload: str
    messages: tuple[Message, ...] = ()
    text: str | None = None
    tools: tuple[Tool, ...] = ()
    later_turns: tuple[str, ...] = ()
    checker: Checker | None = None
    reference: str | None = None
    session: str = ""
    max_tokens: int | None = None
    source: str = "forerun"

    def __post_init__(self) -> None:
        if bool(self.messages) == (self.text is not None):
            raise ValueError(f"prompt {self.id} must have messages or raw text, and not both")
        if self.later_turns and not self.messages:
            raise ValueError(f"prompt {self.id} has later turns and no messages to put them behind")

    @property
    def plain_text(self) -> str:
        """The text without a chat template: the raw text, or the contents joined by blank lines."""
        if self.text is not None:
            return self.text
        return "\n\n".join(message.content for message in self.messages if message.content)

    def messages_without_tools(self) -> tuple[Message, ...]:
        """The same chat for templates that know no tools, which would drop them in silence.

        Tools go into the system turn, earlier calls into the assistant's text, results into user turns.
        """
        messages = tuple(_without_tools(message) for message in self.messages)
        if not self.tools or not messages:
            return messages
        listing = "\n".join(json.dumps(tool.as_dict()["function"], ensure_ascii=False) for tool in self.tools)
        notice = (
            "You can call these functions, given as JSON schemas, one per line:\n"
            f"{listing}\n"
            'To call one, answer with <tool_call>{"name": ..., "arguments": {...}}</tool_call> and nothing else.'
        )
        first, rest = messages[0], messages[1:]
        if first.role == "system":
            return (Message("system", f"{first.content}\n\n{notice}"), *rest)
        return (Message("system", notice), *messages)

    def after(self, answer: str, id: str) -> Prompt:
        """The next turn behind ``answer``, as prompt ``id``. What checks a prompt checks its first answer alone."""
        history = (*self.messages, Message("assistant", answer), Message("user", self.later_turns[0]))
        later_turns = self.later_turns[1:]
        return replace(self, id=id, messages=history, later_turns=later_turns, checker=None, reference=None)

    def as_dict(self) -> dict[str, Any]:
        """What reaches the model, in plain values: the basis of the prompt-set hash and of raw records."""
        return {
            "id": self.id,
            "workload": self.workload,
            "messages": [message.as_dict() for message in self.messages],
            "text": self.text,
            "tools": [tool.as_dict() for tool in self.tools],
            "later_turns": list(self.later_turns),
            "max_tokens": self.max_tokens,
        }

    def check(self, output: str, *, may_execute: bool = False) -> CheckResult | None:
        """The checker's verdict; ``None`` where there is no checker, or it runs model output and that isn't allowed."""
        if self.checker is None or (self.checker.executes_output and not may_execute):
            return None
        checker = self.checker.with_permission() if may_execute else self.checker
        return checker.check(output)


def _without_tools(message: Message) -> Message:
    if message.role == "tool":
        return Message("user", f"<tool_response>\n{message.content}\n</tool_response>")
    calls = [json.dumps(call.as_dict()["function"], ensure_ascii=False) for call in message.tool_calls]
    parts = [message.content, *(f"<tool_call>\n{call}\n</tool_call>" for call in calls)]
    return Message(message.role, "\n".join(part for part in parts if part))
