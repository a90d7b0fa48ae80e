"""Checkers as they are written in prompt files."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from forerun.workloads.checkers.answer import AnswerChecker
from forerun.workloads.checkers.base import Checker
from forerun.workloads.checkers.code import CodeChecker
from forerun.workloads.checkers.contains import ContainsChecker, RegexChecker
from forerun.workloads.checkers.json_object import JsonChecker
from forerun.workloads.checkers.language import LanguageChecker
from forerun.workloads.checkers.tool_call import ToolCallChecker
from forerun.workloads.tool import Tool


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AnswerSpec(_Spec):
    """The final number or boxed expression."""

    kind: Literal["answer"]
    expected: str = Field(min_length=1)

    def build(self, tools: tuple[Tool, ...]) -> Checker:
        """The checker."""
        return AnswerChecker(self.expected)


class JsonSpec(_Spec):
    """A JSON object with these keys and values."""

    kind: Literal["json"]
    expected: dict[str, Any] = Field(min_length=1)
    any_value: tuple[str, ...] = ()

    def build(self, tools: tuple[Tool, ...]) -> Checker:
        """The checker."""
        return JsonChecker(self.expected, self.any_value)


class ToolCallSpec(_Spec):
    """A call of one of the prompt's tools."""

    kind: Literal["tool_call"]
    name: str
    arguments: dict[str, Any] = {}

    def build(self, tools: tuple[Tool, ...]) -> Checker:
        """The checker. Raises ``ValueError`` where the prompt has no such tool."""
        if self.name not in [tool.name for tool in tools]:
            raise ValueError(f"the checker names tool {self.name!r}, which the prompt lacks")
        return ToolCallChecker(tools, self.name, self.arguments)


class LanguageSpec(_Spec):
    """The language of the answer."""

    kind: Literal["language"]
    language: Literal["en", "de", "fr", "es", "it", "pt", "nl", "zh", "ja", "ko", "ru", "ar", "el"]

    def build(self, tools: tuple[Tool, ...]) -> Checker:
        """The checker."""
        return LanguageChecker(self.language)


class ContainsSpec(_Spec):
    """Words that must or must not occur."""

    kind: Literal["contains"]
    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()
    ignores_case: bool = False

    @model_validator(mode="after")
    def _demands_something(self) -> ContainsSpec:
        if not (self.all_of or self.any_of or self.none_of):
            raise ValueError("one of all_of, any_of, none_of is needed")
        return self

    def build(self, tools: tuple[Tool, ...]) -> Checker:
        """The checker."""
        return ContainsChecker(self.all_of, self.any_of, self.none_of, self.ignores_case)


class RegexSpec(_Spec):
    """A regular expression that must be found."""

    kind: Literal["regex"]
    pattern: str = Field(min_length=1)

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    def build(self, tools: tuple[Tool, ...]) -> Checker:
        """The checker."""
        return RegexChecker(self.pattern)


class CodeSpec(_Spec):
    """Tests that the code must pass; run only with permission."""

    kind: Literal["code"]
    tests: str = Field(min_length=1)
    entry_point: str = ""
    prompt_code: str = ""
    seconds: int = Field(default=10, ge=1, le=600)
    memory_mib: int = Field(default=1024, ge=64)

    def build(self, tools: tuple[Tool, ...]) -> Checker:
        """The checker, without permission."""
        return CodeChecker(self.tests, self.entry_point, self.prompt_code, self.seconds, self.memory_mib)


CheckerSpec = Annotated[
    AnswerSpec | JsonSpec | ToolCallSpec | LanguageSpec | ContainsSpec | RegexSpec | CodeSpec,
    Field(discriminator="kind"),
]
