"""How a benchmark's script ends: what a person can mend is one line on standard error and exit status 2."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from forerun.errors import ForerunError


def run_script(main: Callable[[], int | None]) -> NoReturn:
    """Exits with what ``main`` returns, 0 for None; 2 after one line for a ForerunError or a file that can't be used.

    Any other error is one of the script and keeps its traceback.
    """
    try:
        code = main() or 0
        # What is still buffered may meet a full disk: here, not while Python leaves.
        sys.stdout.flush()
    except ForerunError as error:
        code = fail(error)
    except KeyboardInterrupt:
        print(f"{_name()}: interrupted", file=sys.stderr)
        code = 130
    except OSError as error:
        if error.filename is None:
            raise
        reason = error.strerror or "no reason"
        code = fail(ForerunError(f"to be able to use {error.filename}", reason, "correct the path or its permissions"))
    sys.exit(code)


def fail(error: ForerunError) -> int:
    """The error in one line on standard error, whatever it holds; returns exit status 2."""
    print(f"{_name()}: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


def _name() -> str:
    return f"benchmarks.{Path(sys.argv[0]).stem}"
