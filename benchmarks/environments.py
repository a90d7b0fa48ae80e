"""Each peer in a virtual environment of its own, built on first use and kept under the user's cache directory.

A recipe's hash names its folder: a changed recipe is a new environment, and a half-built one is never used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from forerun.errors import ForerunError
from forerun.models.cache_root import cache_root

_STEP_SECONDS = 1800
_MARKER = "packages.txt"


@dataclass(frozen=True, slots=True)
class Environment:
    """What pip installs, in this order.

    ``packages`` with their dependencies, then ``alone`` without any, then what the ``alone`` ones require, except the
    names in ``not_required``. ``also_known_as`` gives a distribution a second name (old, new, version), for packages
    that look themselves up under a name that they don't have. ``imports`` must succeed, or the build has failed.
    """

    name: str
    packages: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    not_required: tuple[str, ...] = ()
    also_known_as: tuple[str, str] | None = None
    imports: str = ""

    @property
    def directory(self) -> Path:
        """Where it lies, whether or not it has been built."""
        recipe = json.dumps([asdict(self), sys.version_info[:2]], sort_keys=True)
        return cache_root() / "peers" / f"{self.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:10]}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    @property
    def is_built(self) -> bool:
        """Whether a build went through to its end."""
        return (self.directory / _MARKER).is_file()

    def installed(self) -> dict[str, str]:
        """Versions by package name, as the build left them."""
        lines = (self.directory / _MARKER).read_text().splitlines()
        return dict(line.split("==", 1) for line in lines if "==" in line)


def build(environment: Environment, report: Callable[[str], None] = lambda line: None) -> None:
    """Builds it unless it is there. Raises ForerunError with pip's last line where a step fails."""
    with _locked(environment.directory):
        if environment.is_built:
            return
        shutil.rmtree(environment.directory, ignore_errors=True)
        report(f"building the environment of {environment.name}")
        _run([sys.executable, "-m", "venv", str(environment.directory)], environment)
        if environment.packages:
            _pip(environment, *environment.packages)
        if environment.alone:
            _pip(environment, "--no-deps", *environment.alone)
            if required := _requirements(environment):
                _pip(environment, *required)
        if environment.also_known_as:
            _write_alias(environment, *environment.also_known_as)
        if environment.imports:
            _run([str(environment.python), "-c", environment.imports], environment)
        freeze = _run([str(environment.python), "-m", "pip", "freeze", "--disable-pip-version-check"], environment)
        (environment.directory / _MARKER).write_text(freeze)


def _pip(environment: Environment, *arguments: str) -> None:
    options = ["--quiet", "--no-input", "--disable-pip-version-check"]
    _run([str(environment.python), "-m", "pip", "install", *options, *arguments], environment)


def _requirements(environment: Environment) -> list[str]:
    """What the packages installed alone ask for, markers evaluated there and extras left out."""
    names = [package.split("==")[0] for package in environment.alone]
    code = (
        "import json, sys; from importlib.metadata import requires\n"
        "from pip._vendor.packaging.requirements import Requirement\n"
        "found = [Requirement(line) for name in sys.argv[1:] for line in requires(name) or []]\n"
        "wanted = [r for r in found if r.marker is None or r.marker.evaluate({'extra': ''})]\n"
        "print(json.dumps([[r.name, str(r).split(';')[0].strip()] for r in wanted]))"
    )
    found = json.loads(_run([str(environment.python), "-c", code, *names], environment))
    return sorted({line for name, line in found if name not in environment.not_required})


def _write_alias(environment: Environment, alias: str, version: str) -> None:
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages = Path(_run([str(environment.python), "-c", code], environment).strip())
    folder = packages / f"{alias}-{version.split('+')[0]}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {alias}\nVersion: {version}\n")


def _run(command: list[str], environment: Environment) -> str:
    settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_STEP_SECONDS,
            env=settings | {"MAX_JOBS": "2"},
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(environment, f"no end after {_STEP_SECONDS} s of {' '.join(command[:5])}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith("WARNING")]
        raise _failed(environment, lines[-1] if lines else f"exit status {done.returncode} of {command[0]}")
    return done.stdout


def _failed(environment: Environment, found: str) -> ForerunError:
    return ForerunError(
        f"an environment for {environment.name}", found, "check the network and the disk, then run the command again"
    )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One build at a time, whoever else runs the command."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
