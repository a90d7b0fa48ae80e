"""What the command says about itself, and how little it loads for that."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from forerun.cli.main import COMMANDS
from forerun.drafters.knobs import knobs_of
from forerun.drafters.registry import METHODS
from support.command import Run

# Runs a command in a fresh interpreter, then says which of the heavy modules came with it.
LOADED = """
import sys
from forerun.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
heavy = [name for name in ("torch", "transformers", "rich", "plotly", "pydantic") if name in sys.modules]
has_device = "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized()
print(f"\\n{code or 0} {heavy} {has_device}")
"""


def last_line(*words: str) -> str:
    child = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, timeout=120)
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "words", ["--help", "--version", "", "models list", "generate --help", "tune --help", "models --help"]
)
def test_nothing_heavy_is_loaded_for(words: str) -> None:
    assert last_line(*words.split()) == "0 [] False"


@pytest.mark.parametrize("words", ["methods", "methods --json"])
def test_methods_touch_no_device_and_no_model_library(words: str) -> None:
    line = last_line(*words.split())
    assert "transformers" not in line and line.endswith("False")


def test_version(forerun: Run) -> None:
    assert forerun("--version").out == f"forerun {version('forerun')}\n"


def test_help_names_every_command(forerun: Run) -> None:
    out = forerun().out
    for name, summary in COMMANDS.items():
        assert name in out and summary.split(",")[0] in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(forerun: Run, capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as left:
        forerun(command, "--help")
    assert left.value.code == 0
    assert f"usage: forerun {command}" in capsys.readouterr().out


def test_methods_as_json_have_types(forerun: Run) -> None:
    found = json.loads(forerun("methods", "--json").out)
    assert list(found) == list(METHODS)
    for name, fields in found.items():
        info = METHODS[name].info
        assert fields["has_trees"] is info.has_trees
        assert fields["default_grid"] == list(info.default_grid)
        assert fields["max_num_speculative_tokens"] == info.max_num_speculative_tokens
        assert fields["dependency"] == info.dependency.value
        assert fields["borrows"] == info.borrows.value and fields["weights"] == info.weights.value
        assert fields["summary"] == info.summary
        knobs = {knob["name"]: knob["default"] for knob in fields["knobs"]}
        assert knobs == dataclasses.asdict(METHODS[name].config())
        assert all(knob["summary"] for knob in fields["knobs"])


def test_methods_as_a_table(forerun: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    structure, knobs = forerun("methods").out.split("Knobs")
    for name, method in METHODS.items():
        (row,) = (line for line in structure.splitlines() if line.startswith(f"│ {name} "))
        assert method.info.dependency.value in row and method.info.summary in row
        for knob in knobs_of(method.config):
            rows = [line for line in knobs.splitlines() if f"│ {knob.name} " in line and knob.summary in line]
            assert any(name in row.split("│")[1] for row in rows)
