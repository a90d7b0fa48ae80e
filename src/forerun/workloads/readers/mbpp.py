"""MBPP: a sentence, three assertions, a Python answer (github.com/google-research, full and sanitised files)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, model_validator

from forerun.workloads.checkers.code import CodeChecker
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader, has_fields
from forerun.workloads.readers.rows import Row


class MbppRow(LooseRow):
    """Fields of both files: the full one has ``text`` and ``test_setup_code``, the other ``prompt`` and imports."""

    task_id: int
    text: str | None = None
    prompt: str | None = None
    code: str
    test_list: list[str] = Field(min_length=1)
    test_setup_code: str = ""
    test_imports: list[str] = Field(default_factory=list)
    challenge_test_list: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_a_task(self) -> MbppRow:
        if not (self.text or self.prompt):
            raise ValueError("text or prompt is needed")
        return self


class MbppReader(Reader):
    """The assertions are shown, as in the paper, and run by the checker with the harder ones."""

    name: ClassVar[str] = "mbpp"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By its test list."""
        return has_fields(rows, "task_id", "code", "test_list")

    def parse(self, row: Row) -> Prompt:
        """One problem."""
        problem = row.parsed(MbppRow)
        shown = "\n".join(problem.test_list)
        request = f"{problem.text or problem.prompt}\nYour code should pass these tests:\n\n```python\n{shown}\n```"
        setup = [*problem.test_imports, problem.test_setup_code]
        tests = "\n".join([*setup, *problem.test_list, *problem.challenge_test_list])
        return Prompt(
            id=f"mbpp/{problem.task_id}",
            workload="mbpp",
            messages=(Message("user", request),),
            checker=CodeChecker(tests),
            reference=problem.code,
            source=self.name,
        )
