"""The final answer of a worked problem: a number, or a LaTeX expression in a box."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from forerun.workloads.checkers.base import Checker, CheckResult

_NUMBER = re.compile(r"(?<![\w.])-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+)?(?![\d])")
# A number alone: "#### Step 2" is a heading.
_MARKED = re.compile(r"^####\s*(-?\$?\d[\d,./ ]*)\s*$", re.MULTILINE)
_LATEX_FRACTION = re.compile(r"^(-?)\\frac\{(-?\d+)\}\{(-?\d+)\}$")
_LATEX_NOISE = re.compile(r"\\left|\\right|\\!|\\,|\\;|\\ |\\%|%|\^\\circ|\^\{\\circ\}|\\\$|\$|°")


@dataclass(frozen=True, slots=True)
class AnswerChecker(Checker):
    """The answer is the last ``\\boxed{...}``, else the number after the last ``####``, else the last number of all.

    Numbers are compared exactly, as fractions (1,000 = 1000.0, 0.75 = 3/4, a leading $ or trailing unit is ignored).
    Other LaTeX is compared as text after the usual variants are made one: two ways of writing the same expression can
    still differ, so a failure on MATH500 needs a second look.
    """

    expected: str

    def check(self, output: str) -> CheckResult:
        """Compare the final answer with the expected one."""
        found = final_answer(output)
        if found is None:
            return CheckResult(False, f"no answer found, {self.expected} expected")
        number, wanted = as_number(found), as_number(self.expected)
        if number is not None and wanted is not None:
            passed = number == wanted
        else:
            passed = normalised_latex(found) == normalised_latex(self.expected)
        return CheckResult(passed, f"answer {found}, {self.expected} expected")


def final_answer(output: str) -> str | None:
    """The answer as it is written, or ``None``."""
    boxed = _last_box(output)
    if boxed is not None:
        return boxed
    marked = _MARKED.findall(output)
    if marked:
        return str(marked[-1]).strip()
    numbers = _NUMBER.findall(output)
    return str(numbers[-1]) if numbers else None


def as_number(text: str) -> Fraction | None:
    """An exact number, or ``None`` where the text is none. Units in words or after the number are dropped."""
    plain = normalised_latex(text)
    latex = _LATEX_FRACTION.match(plain)
    if latex and latex[3] != "0":
        return Fraction(int(latex[2]), int(latex[3])) * (-1 if latex[1] else 1)
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?:/(\d+))?(?:[a-zA-Z]+)?", plain.replace(",", ""))
    if not match or (match[2] and int(match[2]) == 0):
        return None
    return Fraction(match[1]) / (int(match[2]) if match[2] else 1)


def normalised_latex(text: str) -> str:
    """LaTeX with its spelling variants made one: fractions, spacing, sizes, text commands, dollars, degrees."""
    plain = re.sub(r"\\(?:text|mathrm|mbox)\s*\{([^{}]*)\}", r"\1", text)
    plain = plain.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    plain = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", plain)
    plain = re.sub(r"\\sqrt\s*(\w)", r"\\sqrt{\1}", plain)
    plain = _LATEX_NOISE.sub("", plain)
    return re.sub(r"\s+", "", plain).rstrip(".")


def _last_box(output: str) -> str | None:
    start = output.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 1, start + len("\\boxed{")
    for index in range(begin, len(output)):
        depth += {"{": 1, "}": -1}.get(output[index], 0)
        if depth == 0:
            return output[begin:index]
    return None
