"""What a reader is: one file format, recognised by its fields, one row at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.rows import Row


class LooseRow(BaseModel):
    """A row of somebody else's format: fields that aren't needed are let pass, types are not bent."""

    model_config = ConfigDict(extra="ignore", strict=True)


class Reader(ABC):
    """Turns rows into prompts. Every row becomes a prompt or an error; none is left out."""

    name: ClassVar[str]

    @abstractmethod
    def recognises(self, rows: Sequence[Row]) -> bool:
        """Whether the rows look like this format; there is at least one."""

    @abstractmethod
    def parse(self, row: Row) -> Prompt:
        """The prompt of one row. Raises ``ForerunError`` with the line."""

    def read(self, rows: Sequence[Row], folder: Path) -> list[Prompt]:
        """The prompts of all rows, in order; ``folder`` is where the file lies, for formats that name others."""
        return [self.parse(row) for row in rows]


def has_fields(rows: Sequence[Row], *names: str) -> bool:
    """Whether the first row has all these fields."""
    return all(name in rows[0].fields for name in names)
