"""MATH500: competition problems with a LaTeX answer (github.com/openai/prm800k, data of Hendrycks et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from forerun.workloads.checkers.answer import AnswerChecker
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader, has_fields
from forerun.workloads.readers.rows import Row


class Math500Row(LooseRow):
    """The published fields that are used."""

    problem: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    solution: str = ""
    unique_id: str | None = None


class Math500Reader(Reader):
    """Checked by the boxed answer."""

    name: ClassVar[str] = "math500"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By problem and answer."""
        return has_fields(rows, "problem", "answer")

    def parse(self, row: Row) -> Prompt:
        """One problem."""
        problem = row.parsed(Math500Row)
        request = f"{problem.problem}\n\nReason step by step and put the final answer in \\boxed{{}}."
        return Prompt(
            id=problem.unique_id or f"math500/{row.line}",
            workload="math500",
            messages=(Message("user", request),),
            checker=AnswerChecker(problem.answer),
            reference=problem.solution or problem.answer,
            source=self.name,
        )
