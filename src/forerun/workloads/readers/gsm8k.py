"""GSM8K: word problems whose worked answers end in ``#### number`` (github.com/openai/grade-school-math)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from forerun.workloads.checkers.answer import AnswerChecker
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader, has_fields
from forerun.workloads.readers.rows import Row

MARK = "####"


class Gsm8kRow(LooseRow):
    """The published fields."""

    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)


class Gsm8kReader(Reader):
    """Checked by the final number."""

    name: ClassVar[str] = "gsm8k"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By question and an answer with the mark."""
        return has_fields(rows, "question", "answer") and MARK in str(rows[0].fields["answer"])

    def parse(self, row: Row) -> Prompt:
        """One problem."""
        problem = row.parsed(Gsm8kRow)
        _, mark, final = problem.answer.rpartition(MARK)
        if not mark or not final.strip():
            raise row.error("an answer without its final '#### number'")
        return Prompt(
            id=f"gsm8k/{row.line}",
            workload="gsm8k",
            messages=(Message("user", problem.question),),
            checker=AnswerChecker(final.strip()),
            reference=problem.answer,
            source=self.name,
        )
