"""MT-Bench and Spec-Bench: questions of one or two user turns (github.com/lm-sys/FastChat and hemingkx/Spec-Bench).

Both files have one shape; Spec-Bench holds MT-Bench's 80 questions and five tasks more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field, field_validator

from forerun.workloads.checkers.answer import AnswerChecker
from forerun.workloads.checkers.base import Checker
from forerun.workloads.checkers.language import LanguageChecker
from forerun.workloads.message import Message
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.base import LooseRow, Reader, has_fields
from forerun.workloads.readers.gsm8k import MARK
from forerun.workloads.readers.rows import Row

_SPEC_BENCH_TASKS = frozenset({"translation", "summarization", "qa", "math_reasoning", "rag"})


class TurnsRow(LooseRow):
    """The published fields; a reference is a text, or a list of texts (one per turn) or of alternatives."""

    question_id: int | str
    category: str = Field(min_length=1)
    turns: list[str] = Field(min_length=1)
    reference: str | list[Any] | None = None

    @field_validator("turns")
    @classmethod
    def _no_turn_is_empty(cls, turns: list[str]) -> list[str]:
        if not all(turn.strip() for turn in turns):
            raise ValueError("a turn is empty")
        return turns

    def reference_text(self) -> str | None:
        """The references one below another, alternatives on one line; ``None`` where there is none."""
        if self.reference is None or isinstance(self.reference, str):
            return self.reference
        lines = [" | ".join(map(str, part)) if isinstance(part, list) else str(part) for part in self.reference]
        return "\n".join(lines)


class MtBenchReader(Reader):
    """One workload, ``mt_bench``; the second turn waits in ``later_turns`` for the model's own first answer."""

    name: ClassVar[str] = "mt_bench"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By question id and turns, without a Spec-Bench task."""
        return has_fields(rows, "question_id", "category", "turns") and not _has_spec_bench_task(rows)

    def parse(self, row: Row) -> Prompt:
        """One question."""
        question = row.parsed(TurnsRow)
        reference = question.reference_text()
        return Prompt(
            id=f"{self.name}/{question.question_id}",
            workload=self._workload(question.category),
            messages=(Message("user", question.turns[0]),),
            later_turns=tuple(question.turns[1:]),
            checker=_checker(question.category, reference),
            reference=reference,
            source=self.name,
        )

    def _workload(self, category: str) -> str:
        return "mt_bench"


class SpecBenchReader(MtBenchReader):
    """One workload per task, named as the paper groups them: ``spec_bench/mt_bench``, ``spec_bench/rag``, ..."""

    name: ClassVar[str] = "spec_bench"

    def recognises(self, rows: Sequence[Row]) -> bool:
        """By question id and turns, with a Spec-Bench task anywhere in the file."""
        return has_fields(rows, "question_id", "category", "turns") and _has_spec_bench_task(rows)

    def _workload(self, category: str) -> str:
        return f"spec_bench/{category if category in _SPEC_BENCH_TASKS else 'mt_bench'}"


def _has_spec_bench_task(rows: Sequence[Row]) -> bool:
    return any(row.fields.get("category") in _SPEC_BENCH_TASKS for row in rows)


def _checker(category: str, reference: str | None) -> Checker | None:
    """Only two tasks can be checked by rule: GSM8K's answers, and that a translation is in English."""
    if category == "math_reasoning" and reference and MARK in reference:
        return AnswerChecker(reference.rpartition(MARK)[2].strip())
    return LanguageChecker("en") if category == "translation" else None
