"""A bar, a stage and an ETA on stderr while a tune runs; a line per stage where stderr is no terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class TuneProgress:
    """Drawn between trials alone: no thread of its own runs beside a measurement."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
        )
        self._bar = RichProgress(*columns, console=self._console, auto_refresh=False)
        self._task = self._bar.add_task("starting", total=None, left="")
        self._is_live = self._console.is_terminal

    def __enter__(self) -> TuneProgress:
        if self._is_live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_live:
            self._bar.stop()

    def stage(self, text: str) -> None:
        """See ``forerun.sweep.progress.Progress``."""
        if self._is_live:
            self._bar.update(self._task, description=text, refresh=True)
        else:
            self._console.print(text, highlight=False, soft_wrap=True)

    def advance(self, num_done: int, num_total: int, seconds_left: float | None) -> None:
        """See ``forerun.sweep.progress.Progress``."""
        if not self._is_live:
            return
        left = "" if seconds_left is None else f"about {_span(seconds_left)} left"
        self._bar.update(self._task, completed=num_done, total=num_total, left=left, refresh=True)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
