"""Raw responses: whole, read-only, never overwritten."""

import errno
import os
import stat

import pytest

from forerun.errors import ForerunError
from forerun.sweep import files
from forerun.sweep.files import make_directory, replace_file
from forerun.sweep.run_directory import RunDirectory

ROWS = [{"prompt": "p1", "text": "déjà vu 猫"}, {"prompt": "p2", "token_ids": [1, 2]}]


def test_rows_come_back_from_a_read_only_file(tmp_path):
    run = RunDirectory(tmp_path, "r1")
    name = run.write("ngram-7-000", ROWS)
    assert name == "ngram-7-000.jsonl"
    assert run.read(name) == ROWS
    assert stat.S_IMODE((run.path / name).stat().st_mode) == 0o444


def test_nothing_is_ever_overwritten(tmp_path):
    run = RunDirectory(tmp_path, "r1")
    first, second, third = run.write("a", ROWS), run.write("a", ROWS[:1]), RunDirectory(tmp_path, "r1").write("a", [])
    assert (first, second, third) == ("a.jsonl", "a.2.jsonl", "a.3.jsonl")
    assert run.read(first) == ROWS


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    run = RunDirectory(tmp_path, "r1")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ForerunError, match="full disk; free some space"):
        run.write("a", ROWS)
    with pytest.raises(ForerunError, match="full disk"):
        replace_file(run.path / "policy.json", "{}")
    assert list(run.path.iterdir()) == []


def test_what_a_crash_left_is_cleared_away(tmp_path):
    run = RunDirectory(tmp_path, "r1")
    run.write("a", ROWS)
    (run.path / f"{files.PARTIAL}xyz").write_text('{"half')
    RunDirectory(tmp_path, "r1")
    assert [file.name for file in run.path.iterdir()] == ["a.jsonl"]


def test_missing_and_damaged_files_are_refused(tmp_path):
    run = RunDirectory(tmp_path, "r1")
    with pytest.raises(ForerunError, match="No such file"):
        run.read("none.jsonl")
    (run.path / "bad.jsonl").write_text('{"half')
    with pytest.raises(ForerunError, match="JSON lines"):
        run.read("bad.jsonl")
    (tmp_path / "file").touch()
    with pytest.raises(ForerunError, match="found a file"):
        make_directory(tmp_path / "file")
    with pytest.raises(ForerunError, match="to write"):
        replace_file(tmp_path / "none" / "x.json", "{}")


def test_replacing_keeps_the_old_file_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "policy.json"
    replace_file(path, "old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(ForerunError, match="Input/output error"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
