"""Loading with a progress bar on stderr, so that stdout holds the result alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from transformers.utils import logging as transformers_logging

from forerun.models.cpu_quota import keep_threads_within_quota
from forerun.models.decoder import Decoder
from forerun.models.loading.load_target import load_target
from forerun.models.loading.loaded_target import LoadedTarget
from forerun.models.native.fallback import describe_fallback
from forerun.models.pull import pull


def load_with_progress(source: str, *, dtype: str, device: str, exact: bool) -> LoadedTarget:
    """``load_target`` with a bar while something is fetched, and a line where the native kernels are missed."""
    # What is wrong with a checkpoint comes as an error of ours, in one line; the library would say it twice and longer.
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity(transformers_logging.CRITICAL)
    keep_threads_within_quota()
    with _bar(f"fetching {source}") as report:
        loaded = load_target(source, dtype=dtype, device=device, exact=exact, progress=report)
    if exact and isinstance(loaded.target, Decoder) and loaded.target.device.type == "cpu":
        _say_fallback(loaded.target.dtype)
    return loaded


@functools.cache
def _say_fallback(dtype: torch.dtype) -> None:
    """Says once what torch costs where kernels should compute."""
    if (line := describe_fallback(dtype)) is not None:
        print(f"forerun: {line}", file=sys.stderr)


def pull_with_progress(name: str) -> Path:
    """``pull`` with a bar."""
    with _bar(f"fetching {name}") as report:
        return pull(name, report)


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Drawn from the first byte that has to be fetched; where nothing has to be, stderr stays empty."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with ExitStack() as stack:
        progress = Progress(*columns, console=console, transient=True)
        task = progress.add_task(title, total=None)
        is_drawn = False

        def report(done: int, total: int) -> None:
            nonlocal is_drawn
            if not is_drawn and console.is_terminal and done < total:
                stack.enter_context(progress)
                is_drawn = True
            progress.update(task, completed=done, total=total)

        yield report
