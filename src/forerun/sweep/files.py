"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from forerun.errors import ForerunError

PARTIAL: Final = ".partial-"
LOCK: Final = ".in-use"


def replace_file(path: Path, text: str) -> None:
    """Writes or replaces a file in one step. Raises ForerunError when it can't be written; the old one then stays."""
    with _refusals(path), _written_aside(path, text) as aside:
        aside.chmod(0o644)
        os.replace(aside, path)


def write_once(path: Path, text: str) -> None:
    """Writes a read-only file that must not exist yet (else FileExistsError). ForerunError as in ``replace_file``."""
    with _refusals(path), _written_aside(path, text) as aside:
        aside.chmod(0o444)
        # A rename would overwrite in silence; a link refuses.
        os.link(aside, path)


@contextlib.contextmanager
def placed_once(path: Path) -> Iterator[Path]:
    """A place to make a file in; it becomes ``path``, whole, when the block ends well, and is gone otherwise.

    Raises FileExistsError where ``path`` came into being meanwhile; ForerunError as in ``replace_file``.
    """
    with _refusals(path):
        handle, name = tempfile.mkstemp(prefix=PARTIAL, dir=path.parent)
        os.close(handle)
        aside = Path(name)
        try:
            yield aside
            aside.chmod(0o644)
            os.link(aside, path)
        finally:
            # What makes the file may have put others beside it.
            for leftover in path.parent.glob(f"{aside.name}*"):
                leftover.unlink(missing_ok=True)


def make_directory(path: Path) -> None:
    """Makes a directory with its parents. Raises ForerunError when that is impossible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ForerunError(f"a directory at {path}", "a file", "choose another directory") from error
    except OSError as error:
        raise _refusal(path, error) from error


@contextlib.contextmanager
def in_use(directory: Path) -> Iterator[None]:
    """Holds a directory for this process alone. Raises ForerunError where another one holds it.

    Where the system has no file locks (Windows) nothing is held.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = directory / LOCK
    with _refusals(path), path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ForerunError(
                f"{directory} for one run at a time", "another run that uses it", "wait for it, or choose another --out"
            ) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def fresh_directory(path: Path) -> Iterator[None]:
    """Makes a directory as ``make_directory`` does; those that it made and that are still empty go away at the end."""
    made = [one for one in (path, *path.parents) if not one.exists()]
    make_directory(path)
    try:
        yield
    finally:
        for one in made:
            # Not empty: something was written, and stays.
            with contextlib.suppress(OSError):
                one.rmdir()


def remove_partial_files(directory: Path) -> None:
    """Clears away what a crash left half-written."""
    for leftover in directory.glob(f"{PARTIAL}*"):
        leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def _written_aside(path: Path, text: str) -> Iterator[Path]:
    """A complete temporary file beside ``path``, gone at the end unless it was renamed."""
    handle, name = tempfile.mkstemp(prefix=PARTIAL, dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield aside
    finally:
        aside.unlink(missing_ok=True)


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise _refusal(path, error) from error


def _refusal(path: Path, error: OSError) -> ForerunError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ForerunError(f"space for {path}", "a full disk", "free some space, then run the same command to resume")
    return ForerunError(f"to write {path}", error.strerror or str(error), "check the path and its permissions")
