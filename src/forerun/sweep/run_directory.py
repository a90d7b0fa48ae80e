"""Raw responses of a run: JSON lines, written once, never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from forerun.errors import ForerunError
from forerun.sweep.files import make_directory, remove_partial_files, write_once


class RunDirectory:
    """``ROOT/runs/RUN_ID/``: one read-only file per trial."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.path = root / "runs" / run_id
        make_directory(self.path)
        remove_partial_files(self.path)

    def write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
        """Writes rows as JSON lines; returns the file's name, ``NAME.jsonl`` or the first free ``NAME.2.jsonl``.

        A trial that was written but not recorded before a crash keeps its file: the repetition gets the next name.
        Raises ForerunError when nothing can be written; then nothing is left behind.
        """
        text = "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)
        for attempt in count(1):
            file = self.path / (f"{name}.jsonl" if attempt == 1 else f"{name}.{attempt}.jsonl")
            try:
                write_once(file, text)
            except FileExistsError:
                continue
            return file.name
        raise AssertionError("count never ends")

    def read(self, file_name: str) -> list[dict[str, Any]]:
        """Rows of a file that ``write`` named. Raises ForerunError if it is missing or damaged."""
        file = self.path / file_name
        try:
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        except OSError as error:
            raise ForerunError(
                f"raw responses at {file}", error.strerror or str(error), "run the sweep again"
            ) from error
        except json.JSONDecodeError as error:
            raise ForerunError(f"JSON lines in {file}", str(error), "run the sweep again") from error
        return rows
