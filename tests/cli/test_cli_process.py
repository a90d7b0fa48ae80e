"""The command as a process: exit codes, Ctrl-C, pipes that close and disks that fill up."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from support.command import TinyModels, finish, refused, start


def generate(tiny: TinyModels, *words: object) -> list[object]:
    return ["generate", "--model", tiny.target, "--prompt", "hello", *words]


def test_exit_codes(tiny: TinyModels) -> None:
    assert finish(start("--version")).code == 0
    refused(finish(start(*generate(tiny, "--max-tokens", 0))))


def test_ctrl_c_is_one_line(tiny: TinyModels) -> None:
    # One letter for ever: text comes at once, and the end doesn't.
    words = generate(tiny, "--max-tokens", 4000, "--ignore-eos", "--logit-bias", "40=50")
    process = start(*words)
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.code == 130
    assert outcome.err == "forerun: interrupted\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_tune_that_is_ended_while_it_loads_leaves_no_directory(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    model, out = tmp_path / "model", tmp_path / "new" / "out"
    model.mkdir()
    os.mkfifo(model / "config.json")  # loading waits here for a writer
    process = start("tune", "--model", model, "--out", out)
    while not out.exists():
        assert process.poll() is None, finish(process)
        time.sleep(0.01)
    process.send_signal(sent)
    outcome = finish(process)
    # An interrupt that hits a class just being made by exec() ends Python by the signal itself, caught or not.
    assert outcome.code in (code, -sent) and outcome.err in ("forerun: terminated\n", "forerun: interrupted\n")
    assert not out.parent.exists()


def test_a_reader_that_leaves_is_no_error(tiny: TinyModels) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start(*generate(tiny, "--max-tokens", 40, "--show-rounds"), stdout=write_end)
    os.close(write_end)
    outcome = finish(process)
    assert outcome.code == 0
    assert "Traceback" not in outcome.err and "BrokenPipe" not in outcome.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout(tiny: TinyModels) -> None:
    with Path("/dev/full").open("w") as full:
        outcome = finish(start(*generate(tiny, "--max-tokens", 4, "--json"), stdout=full.fileno()))
    assert "No space left" in refused(outcome)
