"""The command that compiles the kernels by hand takes no words."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from forerun.models.native import build

SCRIPT = Path(build.__file__)


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("--clean", 2), ("avx2", 2)])
def test_a_word_builds_nothing(
    word: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "/no/compiler")  # a build would say so
    monkeypatch.setattr("sys.argv", ["build.py", word])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == code
    shown = capsys.readouterr()
    assert "python -m forerun.models.native.build" in shown.out + shown.err
    assert ("unrecognized arguments" in shown.err) is bool(code)
