"""HumanEval: a Python signature with its docstring, and tests (github.com/openai/human-eval)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from forerun.workloads.checkers.code import CodeChecker
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader, has_fields
from forerun.workloads.readers.rows import Row


class HumanEvalRow(LooseRow):
    """The published fields."""

    task_id: str = Field(min_length=1)
    prompt: str = Field(min_length=1)
    entry_point: str = Field(pattern=r"^[A-Za-z_]\w*$")
    canonical_solution: str
    test: str = Field(min_length=1)


class HumanEvalReader(Reader):
    """Asks for the finished function in chat form; the checker takes a whole function or a continuation."""

    name: ClassVar[str] = "human_eval"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By the fields that only it has together."""
        return has_fields(rows, "task_id", "prompt", "entry_point", "test")

    def parse(self, row: Row) -> Prompt:
        """One problem."""
        problem = row.parsed(HumanEvalRow)
        request = f"Complete this Python function. Answer with the whole function.\n\n```python\n{problem.prompt}```"
        tests = f"{problem.test}\ncheck({problem.entry_point})\n"
        return Prompt(
            id=problem.task_id,
            workload="human_eval",
            messages=(Message("user", request),),
            checker=CodeChecker(tests, problem.entry_point, prompt_code=problem.prompt),
            reference=problem.prompt + problem.canonical_solution,
            source=self.name,
        )
