"""The comparison itself: it passes on a target that keeps its bits, and a target that doesn't can't pass."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import ForerunError
from forerun.models.native.build import PATHS
from forerun.models.native.kernels import find_kernels
from same_bytes import arm, run
from same_bytes.__main__ import main
from same_bytes.drafts import Drafts
from same_bytes.numbers import BLOCKS, PLAIN, POOLS, Numbers, weights_here
from same_bytes.report import Report
from same_bytes.run_directory import RunDirectory
from same_bytes.setting import Setting, settings
from same_bytes.subject import TinySubject
from support.leaky_target import Leak, more_threads, other_owners, prefill_cuts, rows_beside

SMALL = settings(["float32"], ["auto"])


def compare(directory: Path, leak: Leak | None, chosen: list[Setting], num_prompts: int = 3) -> Report:
    subject = TinySubject(leak=leak)
    prompts = subject.prompts(num_prompts)
    kept = RunDirectory(directory, subject, prompts, 8)
    return run.Run(subject, prompts, 8, chosen, kept, lambda line: None).run()


def test_every_number_type_meets_every_way_to_draft() -> None:
    chosen = settings([*PLAIN, *BLOCKS])
    assert len(set(chosen)) == len(chosen) <= 36
    assert {setting.numbers for setting in chosen} == {Numbers.of(*pair) for pair in product([*PLAIN, *BLOCKS], POOLS)}
    assert len({(setting.numbers.weights, setting.drafts) for setting in chosen}) == 4 * len(Drafts)


def test_blocks_are_multiplied_where_there_are_kernels_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    built = bool(find_kernels())
    assert weights_here() == [*PLAIN, *(BLOCKS if built else ())]
    for weights in weights_here():
        assert TinySubject().model(Numbers(weights)).traits.dtype == weights
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    assert weights_here() == list(PLAIN)


def test_nothing_differs_on_a_tiny_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "tiny", "--prompts", "6", "--tokens", "16", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/report.json")
    report = json.loads(path.read_text())
    num_settings = len(settings(weights_here()))
    assert report["num_tokens"] == sum(row["num_tokens"] for row in report["settings"]) == 6 * 16 * num_settings
    assert report["num_different_rows"] == report["num_different_ids"] == 0
    shown = capsys.readouterr().out
    assert f"0 different ids and 0 positions with any difference in {6 * 16 * num_settings:,} tokens" in shown


def runnable_paths() -> list[str]:
    """torch, and every native path that was built and that this CPU runs."""
    found = ["torch"]
    for path in PATHS:
        with contextlib.suppress(ForerunError):
            find_kernels(path)
            found.append(path)
    return found


@pytest.mark.parametrize("kernels", runnable_paths())
def test_nothing_differs_on_any_kernels(kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_KERNELS", kernels)
    report = compare(tmp_path, None, settings(weights_here())[::2])
    assert report.is_passed, report.first_difference
    assert f"kernels {kernels}" in report.machine


def test_a_leak_fails_the_command_and_its_first_difference_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--prompts", "3", "--tokens", "6", "--out", str(tmp_path)]
    assert main(argv, TinySubject(leak=rows_beside)) == 1
    shown = capsys.readouterr().out
    first = shown.partition("first difference: ")[2]
    assert "prompt 0 (33 tokens), output position" in first
    assert first.count(" at -") == 2 and "reference token" in first and "found     token" in first
    (path,) = tmp_path.glob("*/report.json")
    report = json.loads(path.read_text())
    assert report["num_different_rows"] > report["num_different_ids"]
    assert first.strip() == report["first_difference"].strip()


# Which settings a leak must show in: it proves as well that each setting does what its name says.
LEAKS: dict[str, tuple[Leak, Callable[[Setting], bool], Callable[[Setting], bool]]] = {
    "threads": (more_threads, lambda s: s.threads > 1, lambda s: s.threads > 1),
    "neighbours": (
        other_owners,
        lambda s: s.batch > 1 and s.arrival.value != "staggered",
        lambda s: s.batch > 1 or s.hits_prefixes,
    ),
    "slices": (
        prefill_cuts,
        lambda s: s.row_budget == 64 and s.batch == 1 and not s.hits_prefixes,
        lambda s: s.row_budget <= 64 or s.n >= 7 or s.batch > 1 or s.hits_prefixes or s.is_interrupted,
    ),
}


@pytest.mark.parametrize(("leak", "must_show", "may_show"), LEAKS.values(), ids=LEAKS)
def test_a_leak_shows_where_it_can_and_nowhere_else(
    tmp_path: Path, leak: Leak, must_show: Callable[[Setting], bool], may_show: Callable[[Setting], bool]
) -> None:
    report = compare(tmp_path, leak, SMALL, num_prompts=6)
    shown = {setting for setting, outcome in report.outcomes.items() if outcome.differences}
    assert {setting for setting in SMALL if must_show(setting)} <= shown
    assert shown <= {setting for setting in SMALL if may_show(setting)}
    assert shown and len(shown) < len(SMALL)
    assert not report.is_passed


def test_settings_that_draft_nothing_prove_nothing(tmp_path: Path) -> None:
    plain = [setting for setting in SMALL if setting.drafts.value == "off" and not setting.hits_prefixes]
    report = compare(tmp_path, None, plain[:1])
    assert report.num_different_rows == 0 and not report.is_passed
    assert report.doubts == ["no draft was accepted", "no draft was rejected", "no prefix was hit"]


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = SMALL[:6]
    whole = compare(tmp_path / "whole", more_threads, chosen)
    calls = []

    def stopped(*args: Any) -> arm.Arm:
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return arm.run_arm(*args)

    monkeypatch.setattr(run, "run_arm", stopped)
    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path / "part", more_threads, chosen)
    resumed = compare(tmp_path / "part", more_threads, chosen)
    assert len(calls) == 1 + len({setting.temperature for setting in chosen}) + len(chosen), "one arm was run twice"
    assert [outcome.differences for outcome in resumed.outcomes.values()] == [
        outcome.differences for outcome in whole.outcomes.values()
    ]
    assert resumed.num_different_rows == whole.num_different_rows > 0


def test_other_prompts_begin_anew(tmp_path: Path) -> None:
    compare(tmp_path, None, SMALL[:1])
    compare(tmp_path, None, SMALL[:1])
    assert len(list(tmp_path.iterdir())) == 1
    compare(tmp_path, None, SMALL[:1], num_prompts=2)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_bad_name_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", str(tmp_path / "nothing"), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
