"""Words that must or must not be in an output."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forerun.workloads.checkers.base import Checker, CheckResult


@dataclass(frozen=True, slots=True)
class ContainsChecker(Checker):
    """All of ``all_of``, at least one of ``any_of`` and none of ``none_of`` occur; spacing is forgiven, case is not
    unless ``ignores_case``."""

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()
    ignores_case: bool = False

    def check(self, output: str) -> CheckResult:
        """Substring search over the output with runs of white space made one space."""
        text = self._normalised(output)
        for wanted in self.all_of:
            if self._normalised(wanted) not in text:
                return CheckResult(False, f"{wanted!r} is missing")
        for unwanted in self.none_of:
            if self._normalised(unwanted) in text:
                return CheckResult(False, f"{unwanted!r} is still there")
        if self.any_of and not any(self._normalised(wanted) in text for wanted in self.any_of):
            return CheckResult(False, f"none of {', '.join(map(repr, self.any_of))}")
        return CheckResult(True, "holds what it must")

    def _normalised(self, text: str) -> str:
        spaced = " ".join(text.split())
        return spaced.casefold() if self.ignores_case else spaced


@dataclass(frozen=True, slots=True)
class RegexChecker(Checker):
    """A Python regular expression is found in the output; ``.`` matches line ends too."""

    pattern: str

    def check(self, output: str) -> CheckResult:
        """``re.search`` over the whole output."""
        found = re.search(self.pattern, output, re.DOTALL) is not None
        return CheckResult(found, f"pattern {self.pattern!r} {'found' if found else 'not found'}")
