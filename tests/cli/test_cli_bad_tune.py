"""Plans that can't run: refused in one line, before a model is loaded where it can be, and nothing is left behind."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from pathlib import Path

import pytest

from support.command import Run, TinyModels, listing, refused

FLAGS: dict[str, tuple[list[object], str]] = {
    "unknown workload": (["--workload", "poetry"], "a workload among code, .*found 'poetry'"),
    "unknown method": (["--method", "magic"], r"a method \(off, ngram, .*found 'magic'"),
    "only off": (["--method", "off"], "at least one method"),
    "no drafter": (["--method", "draft_model"], "at least one method .*draft_model for /nowhere"),
    "draft type for nothing": (["--draft-dtype", "int8"], "--draft-dtype with a draft model alone"),
    "drafter for nothing": (["--method", "suffix", "--draft-model", "/x"], "take draft_model drafters, such as /x"),
    "N = 0": (["-n", 0], "found 0"),
    "N over the limit": (["--method", "ngram", "-n", 10_000], "method ngram; found N = 10000"),
    "N twice": (["-n", 3, "-n", 3], "each value once"),
    "N in words": (["-n", "three"], "'three'"),
    "model twice": (["--model", "/nowhere"], "each value once"),
    "temperature NaN": (["--temperature", "nan"], "temperatures.*found nan"),
    "temperature below 0": (["--temperature", -1], "temperatures.*found -1"),
    "nobody at a time": (["--concurrency", 0], "concurrency.*found 0"),
    "one token": (["--max-tokens", 1], "max_tokens.*found 1"),
    "negative tokens": (["--max-tokens", -8], "max_tokens.*found -8"),
    "negative seed": (["--seed", -1], "seeds.*found -1"),
    "no prompts": (["--prompts-per-workload", 0], "prompts_per_workload.*found 0"),
    "no time": (["--time-budget", 0], "time_budget.*found 0"),
    "time NaN": (["--time-budget", "nan"], "time_budget.*found nan"),
    "prompts and workloads": (["--prompts", "x", "--workload", "code"], "found both"),
    "unknown flag": (["--wat"], "--wat"),
    "unknown number type": (["--dtype", "float8"], "float8"),
    "unknown number type of keys": (["--kv-dtype", "int4"], "kv_dtype.*found 'int4'"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags(forerun: Run, tmp_path: Path, name: str) -> None:
    flags, expected = FLAGS[name]
    line = refused(forerun("tune", "--model", "/nowhere", "--out", tmp_path / "deep" / "out", *flags))
    assert re.search(expected, line), line
    assert listing(tmp_path) == set()


PLANS = {
    "unknown key": (b'tragets = ["a"]', "unknown key tragets"),
    "unknown key of a method": (
        b'methods = [{name = "suffix", m = 3}]',
        r"name, n, is_tree, knobs; found .*0\.m",
    ),
    "unknown knob": (b'methods = [{name = "suffix", n = [3], knobs = {depth = 2}}]', "a knob of suffix .*found depth"),
    "drafter of an unknown method": (b'[[drafters]]\nmethod = "sufix"\nartifact = "x"', "found 'sufix'"),
    "wrong type": (b'max_tokens = "many"', "max_tokens.*'many'"),
    "contradiction": (b"min_pairs = 9\nmax_pairs = 7", r"max_pairs \(7\)"),
    "no TOML": (b"targets = [", "TOML in"),
    "no UTF-8": (b"\xff\xfe", "TOML in"),
}


@pytest.mark.parametrize("name", PLANS)
def test_plan_files(forerun: Run, tiny: TinyModels, tmp_path: Path, name: str) -> None:
    content, expected = PLANS[name]
    file = tmp_path / "plan.toml"
    file.write_bytes(content)
    out = tmp_path / "out"
    line = refused(forerun("tune", "--model", tiny.target, "--workload", "code", "--plan", file, "--out", out))
    assert re.search(expected, line), line
    assert listing(tmp_path) == {"plan.toml"}


def test_plan_file_that_is_not_there(forerun: Run, tmp_path: Path) -> None:
    assert str(tmp_path / "gone.toml") in refused(forerun("tune", "--plan", tmp_path / "gone.toml"))


PROMPTS = {
    "empty.jsonl": (b"", "at least one row in empty.jsonl"),
    "broken.jsonl": (b'{"prompt": "a"}\n{oops\n', "broken.jsonl; found line 2"),
    "strange.jsonl": (b'{"colour": "red"}\n', "strange.jsonl with colour"),
    "latin.txt": (b"caf\xe9", "UTF-8 text in latin.txt"),
    "long.txt": (b"word " * 2000, "context of 4096 tokens; found .*10020 tokens"),
}


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("flag", ["--prompts", "--warm-corpus"])
def test_prompt_files(forerun: Run, tiny: TinyModels, tmp_path: Path, name: str, flag: str) -> None:
    content, expected = PROMPTS[name]
    file = tmp_path / name
    file.write_bytes(content)
    words = ("--method", "suffix", "--max-tokens", 2, *(("--workload", "code") if flag == "--warm-corpus" else ()))
    line = refused(forerun("tune", "--model", tiny.target, flag, file, "--out", tmp_path / "out", *words))
    assert re.search(expected, line), line
    assert listing(tmp_path) == {name}


def test_prompt_file_that_is_not_there(forerun: Run, tmp_path: Path) -> None:
    line = refused(forerun("tune", "--prompts", tmp_path / "gone", "--out", tmp_path / "out"))
    assert "gone (No such file" in line
    assert listing(tmp_path) == set()


def test_models_that_can_not_be_loaded(forerun: Run, tiny: TinyModels, tmp_path: Path) -> None:
    words = ("tune", "--workload", "code", "--out", tmp_path / "a" / "b")
    assert "'/nowhere'" in refused(forerun(*words, "--model", tiny.target, "--model", "/nowhere"))
    drafted = ("--method", "draft_model", "--model", tiny.target)
    assert "'/nowhere'" in refused(forerun(*words, *drafted, "--draft-model", "/nowhere"))
    line = refused(forerun(*words, *drafted, "--draft-model", tiny.foreign))
    assert "the tokenizer of target; found foreign, where id 3" in line
    assert listing(tmp_path) == set()


def foreign_store(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE trials (id)")


STORES = {
    "another program's": (foreign_store, "a SQLite file of another program"),
    "no SQLite": (lambda path: path.write_bytes(b"junk" * 500), "not a database"),
    "a directory": (lambda path: path.mkdir(), "trials.sqlite"),
}


@pytest.mark.parametrize("name", STORES)
def test_stores_of_others_are_left_alone(forerun: Run, tmp_path: Path, name: str) -> None:
    make, expected = STORES[name]
    path = tmp_path / "trials.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    line = refused(forerun("tune", "--model", "/nowhere", "--workload", "code", "--out", tmp_path))
    assert expected in line and str(path) in line
    assert listing(tmp_path) == {"trials.sqlite"}
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_out_that_is_a_file(forerun: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    words = ("tune", "--model", "/nowhere", "--workload", "code", "--out")
    assert f"a directory at {file}; found a file" in refused(forerun(*words, file))
    assert str(file / "below") in refused(forerun(*words, file / "below"))
    assert file.read_text() == "mine"
