"""One line of what a device was found to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """``passed`` None: reported, not judged, since nothing is promised. ``seconds`` None: not a time."""

    section: str
    what: str
    found: str
    passed: bool | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAILED", None: ""}[self.passed]
        time = "" if self.seconds is None else f"{self.seconds * 1e3:10.3f} ms"
        return f"  {self.what:52s} {time:>13s} {mark:6s} {self.found}".rstrip()
