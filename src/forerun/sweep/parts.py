"""Finished parts of a preparation, kept with the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from forerun.sweep import serialise
from forerun.sweep.trials import Run

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """Whatever was done once for ``target`` is not done again when the run is resumed."""

    run: Run
    target: str

    def find(self, name: str, kind: type[T]) -> T | None:
        """A finished part, if there is one."""
        text = self.run.note(self._note(name))
        return None if text is None else serialise.from_json(kind, text)

    def get(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """The finished part, else what ``make`` gives now; safe when this returns."""
        found = self.find(name, kind)
        if found is not None:
            return found
        made = make()
        self.run.record_note(self._note(name), serialise.to_json(made))
        return made

    def _note(self, name: str) -> str:
        return f"preparation {self.target}: {name}"
