"""A valid call of the right tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from forerun.workloads.checkers.base import Checker, CheckResult
from forerun.workloads.checkers.json_schema import schema_fault
from forerun.workloads.checkers.json_text import json_values, same_value
from forerun.workloads.tool import Tool

_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCallChecker(Checker):
    """The first call of the output names tool ``name`` of ``tools``, and its arguments fit the schema.

    ``arguments`` must be given with those values (case, spacing and 5 against 5.0 forgiven); arguments not listed are
    free within the schema. Formats: ``<tool_call>`` JSON as Qwen and Hermes write it, and bare or fenced JSON, with
    ``arguments`` or ``parameters``, an object or JSON text, alone or in a list.
    """

    tools: tuple[Tool, ...]
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def check(self, output: str) -> CheckResult:
        """Find the call, then check name, schema and values."""
        call = next(tool_calls(output), None)
        if call is None:
            return CheckResult(False, "no tool call in the output")
        name, arguments = call
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            return CheckResult(False, f"calls {name!r}, which is no tool here")
        if name != self.name:
            return CheckResult(False, f"calls {name!r}, {self.name!r} expected")
        if fault := schema_fault({"type": "object", **tool.parameters}, arguments):
            return CheckResult(False, fault)
        for key, value in self.arguments.items():
            if key not in arguments or not same_value(value, arguments[key]):
                return CheckResult(False, f"{key} is {arguments.get(key)!r}, {value!r} expected")
        return CheckResult(True, "valid call")


def tool_calls(output: str) -> Iterator[tuple[str, Any]]:
    """Name and arguments of each call; tagged ones alone where there are tags."""
    for part in _TAGGED.findall(output) or [output]:
        for value in json_values(part):
            for call in value if isinstance(value, list) else [value]:
                if parsed := _call(call):
                    yield parsed


def _call(value: Any) -> tuple[str, Any] | None:
    if not isinstance(value, dict):
        return None
    value = value["function"] if isinstance(value.get("function"), dict) else value
    name = value.get("name")
    arguments = value.get("arguments", value.get("parameters"))
    if not isinstance(name, str) or arguments is None:
        return None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except json.JSONDecodeError:
            return name, arguments
    return name, arguments
