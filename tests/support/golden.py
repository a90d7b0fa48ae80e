"""Text that must stay as it is: after a wanted change, run once with FORERUN_UPDATE_GOLDEN=1 and read the diff."""

import difflib
import os
from pathlib import Path


def assert_golden(path: Path, text: str) -> None:
    """Compare with the file at ``path``; write it instead where FORERUN_UPDATE_GOLDEN is set."""
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("FORERUN_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    known = path.read_text(encoding="utf-8")
    changes = difflib.unified_diff(known.splitlines(), text.splitlines(), "golden", "now", lineterm="", n=1)
    assert text == known, "\n".join(["FORERUN_UPDATE_GOLDEN=1 accepts this:", *changes])
