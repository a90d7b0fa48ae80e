"""``forerun generate --pass-costs``: measured once, kept, shown, and never a word of the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from forerun.sweep.load_guard import LoadLimits
from support.command import Run, refused

FLAGS = ("--prompt", "def area(width, height): return width", "--max-tokens", 12, "--method", "suffix", "-n", 3)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "cache"))
    judged_as("", monkeypatch)


def judged_as(spoiled_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other processes do while tests run must not decide."""
    monkeypatch.setattr(LoadLimits, "spoiled_by", lambda self, *readings: spoiled_by)


def test_costs_are_measured_when_asked_for_and_used_from_then_on(generate: Run, tmp_path: Path) -> None:
    plain = generate(*FLAGS, "--json").json
    flags = dict(plain["conditions"]["flags"])
    assert flags["row_limits"] == "none" and flags["prefill_rows"] == flags["row_budget"]
    assert not (tmp_path / "cache").exists(), "nobody asked for it"
    measured = generate(*FLAGS, "--json", "--pass-costs", "measure")
    assert measured.err == "forerun: measuring what passes cost here, once\n"
    limits = dict(measured.json["conditions"]["flags"])["row_limits"]
    assert limits.startswith("prefill ") and "at most 0.5 s" in limits
    later = generate(*FLAGS, "--json", "--max-pass-seconds", 0.001)
    assert later.err == "" and "at most 0.001 s" in dict(later.json["conditions"]["flags"])["row_limits"]
    assert plain["token_ids"] == measured.json["token_ids"] == later.json["token_ids"]
    shown = generate(*FLAGS, "--show-rounds")
    assert shown.out.startswith(f"rows: {limits}\n")
    assert "rows:" not in generate(*FLAGS, "--show-rounds", "--pass-costs", "off").out


def test_a_bound_that_nothing_can_keep_is_refused(generate: Run) -> None:
    assert "above 0" in refused(generate(*FLAGS, "--max-pass-seconds", 0))
    assert "--pass-costs measure" in refused(generate(*FLAGS, "--max-pass-seconds", 0.1))
    assert "drop one" in refused(generate(*FLAGS, "--max-pass-seconds", 0.1, "--pass-costs", "off"))


def test_a_damaged_file_is_named(generate: Run, tmp_path: Path) -> None:
    generate(*FLAGS, "--pass-costs", "measure")
    (file,) = (tmp_path / "cache" / "pass_costs").iterdir()
    file.write_text("nonsense")
    assert str(file) in refused(generate(*FLAGS))


def test_a_busy_machine_is_not_remembered(generate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged_as("other processes took 40% of the CPUs", monkeypatch)
    busy = generate(*FLAGS, "--json", "--pass-costs", "measure")
    assert "not kept: other processes took 40% of the CPUs" in busy.err
    assert dict(busy.json["conditions"]["flags"])["row_limits"] != "none"
    assert not (tmp_path / "cache").exists()
