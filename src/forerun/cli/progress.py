"""Loading with a progress bar on stderr, so that stdout holds the result alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.pull import pull


def load_with_progress(source: str, *, dtype: str, device: str) -> LoadedTarget:
    """``load_target`` with a bar while something is fetched."""
    with _bar(f"fetching {source}") as report:
        return load_target(source, dtype=dtype, device=device, progress=report)


def pull_with_progress(name: str) -> Path:
    """``pull`` with a bar."""
    with _bar(f"fetching {name}") as report:
        return pull(name, report)


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: list[int] = []

        def report(done: int, total: int) -> None:
            if done >= total and not tasks:
                return
            if not tasks:
                tasks.append(progress.add_task(title, total=total))
            progress.update(tasks[0], completed=done)  # type: ignore[arg-type]

        yield report
