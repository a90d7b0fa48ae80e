"""What a checker is: a pure function of the model's text, as a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether an output passed, and in one line why."""

    passed: bool
    reason: str


class Checker(ABC):
    """Decides whether an output is right. Lossless methods must tie: a difference between them is a bug."""

    executes_output: ClassVar[bool] = False

    @abstractmethod
    def check(self, output: str) -> CheckResult:
        """The verdict on one output."""

    def with_permission(self) -> Checker:
        """The same checker, allowed to execute the output; most need no permission."""
        return self
