"""How the scripts end for a person who mistyped a word."""

from __future__ import annotations

import runpy
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from benchmarks.command import run_script

from forerun.errors import ForerunError

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
NO_MODEL = "no/such/model.gguf"
# The words that take each script to its first look at a path.
MISTYPED = {
    "compare": ["--target", NO_MODEL],
    "draws": [NO_MODEL, "no/such/text"],
    "figures": [NO_MODEL, "--only", "floor"],
    "gpu": ["--device", "cpu", "--model", NO_MODEL],
    "kernel_paths": [NO_MODEL, "baseline:bf16"],
    "neighbour": [NO_MODEL, "--threads", "1"],
    "pool_types": ["--model", NO_MODEL],
    "quantisation": [NO_MODEL],
    "round": [NO_MODEL, "--threads", "1"],
    "round_trees": ["smollm2-135m", "no/such/tree"],
    "sensitive_linears": [NO_MODEL],
    "weight_types": ["--model", NO_MODEL],
}


@pytest.mark.parametrize("name", MISTYPED)
def test_a_mistyped_path_is_one_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    threads = torch.get_num_threads()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [f"{name}.py", *MISTYPED[name]])
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert line.startswith(f"benchmarks.{name}: expected ") and "no/such/" in line


def test_every_script_is_tried_but_the_one_without_a_path() -> None:
    scripts = {path.stem for path in SCRIPTS.glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert scripts == {*MISTYPED, "retrieval"}


def raising(error: BaseException) -> Callable[[], None]:
    def main() -> None:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ForerunError("a", "b\nc", "d"), 2, "expected a; found b c; d"),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), 2, "able to use x.txt; found No such file"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_a_person_can_mend_is_one_line(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_script(raising(error))
    assert ended.value.code == code
    assert line in capsys.readouterr().err.removesuffix("\n").splitlines()[0]


def test_a_fault_of_the_script_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run_script(raising(ZeroDivisionError()))


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1)])
def test_the_exit_status_is_what_main_returns(returned: int | None, code: int) -> None:
    with pytest.raises(SystemExit) as ended:
        run_script(lambda: returned)
    assert ended.value.code == code
