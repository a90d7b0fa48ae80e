"""Python code that passes its tests, as HumanEval and MBPP ask."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from forerun.errors import ForerunError
from forerun.workloads.checkers.base import Checker, CheckResult

_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
# Hard limits first, then code and tests in one module that isn't __main__; the mark shows that the end was reached.
_RUNNER = """
import resource, sys, types
for limit, value in (
    (resource.RLIMIT_CPU, {seconds}),
    (resource.RLIMIT_AS, {num_bytes}),
    (resource.RLIMIT_FSIZE, 1 << 20),
    (resource.RLIMIT_CORE, 0),
):
    resource.setrlimit(limit, (value, value))
module = sys.modules["answer"] = types.ModuleType("answer")
exec(compile({code!r}, "answer.py", "exec"), module.__dict__)
exec(compile({tests!r}, "tests.py", "exec"), module.__dict__)
print("\\n{mark}", flush=True)
"""


@dataclass(frozen=True, slots=True)
class CodeChecker(Checker):
    """The output's code, then ``tests``, run without an error in a fresh Python process.

    ``entry_point`` is the function asked for; an output that doesn't define it continues ``prompt_code``. Limits: wall
    clock and CPU seconds, address space in MiB, 1 MiB per written file. This executes model output with the rights of
    the user and is no sandbox, hence refused until ``with_permission``.
    """

    executes_output: ClassVar[bool] = True

    tests: str
    entry_point: str = ""
    prompt_code: str = ""
    seconds: int = 10
    memory_mib: int = 1024
    may_execute: bool = False

    def with_permission(self) -> CodeChecker:
        """The same checker, allowed to run what it is given."""
        return replace(self, may_execute=True)

    def check(self, output: str) -> CheckResult:
        """Run code and tests. Raises ``ForerunError`` without permission, or where the system has no limits."""
        if not self.may_execute:
            raise ForerunError(
                "permission to execute model output", "none", "ask for it by name, on a machine where that is safe"
            )
        if sys.platform == "win32":
            raise ForerunError("a POSIX system, whose process limits this needs", "Windows", "leave code checks out")
        mark = secrets.token_hex(16)
        runner = _RUNNER.format(
            seconds=self.seconds,
            num_bytes=self.memory_mib << 20,
            code=self.program(output),
            tests=self.tests,
            mark=mark,
        )
        return self._run(runner, mark)

    def program(self, output: str) -> str:
        """The code that is run before the tests: a whole answer, or the given code continued."""
        code = extract_code(output, self.entry_point)
        if not self.prompt_code:
            return code
        if re.search(rf"^(async )?def {self.entry_point}\b", code, re.MULTILINE):
            # Imports and helpers that the problem gives stand before a whole answer too.
            return f"{self.prompt_code}\n    pass\n\n{code}"
        first_line = next((line for line in code.splitlines() if line.strip()), "")
        is_indented = first_line[:1].isspace()
        return self.prompt_code + (code if is_indented else textwrap.indent(code, "    "))

    def _run(self, runner: str, mark: str) -> CheckResult:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "runner.py")
            script.write_text(runner, encoding="utf-8")
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(script)],
                cwd=folder,
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            try:
                stdout, stderr = process.communicate(timeout=self.seconds)
            except subprocess.TimeoutExpired:
                return CheckResult(False, f"still running after {self.seconds} s")
            finally:
                # The whole session: what the code started must not outlive it.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        # An exit before the tests ended leaves no mark, whatever its status.
        if process.returncode == 0 and stdout.rstrip().endswith(mark.encode()):
            return CheckResult(True, "tests passed")
        lines = stderr.decode(errors="replace").strip().splitlines()
        return CheckResult(False, lines[-1][:200] if lines else f"ended with status {process.returncode}")


def extract_code(output: str, entry_point: str = "") -> str:
    """The fenced block that defines ``entry_point``, else the longest one, else the whole output."""
    blocks: list[str] = _FENCE.findall(output)
    if not blocks:
        return output
    defining = [block for block in blocks if entry_point and f"def {entry_point}" in block]
    return defining[0] if defining else max(blocks, key=len)
