"""Flags, prompts and drafters that make no sense: one line, exit code 2, and before anything is loaded where it can."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from support.command import Run, TinyModels, refused

PROMPT = ("--prompt", "hello")

FLAGS: dict[str, tuple[list[object], str]] = {
    "N = 0": (["--method", "suffix", "-n", 0], "N from 1 to 63 for method suffix; found N = 0"),
    "N below 0": (["--method", "suffix", "-n", -3], "found N = -3"),
    "N over the limit": (["--method", "ngram", "-n", 100_000], "method ngram; found N = 100000"),
    "N without a method": (["-n", 3], "a method that drafts, for -n 3; found --method off; add --method"),
    "N in words": (["-n", "three"], "'three'"),
    "unknown method": (["--method", "magic"], r"a method \(off, ngram, suffix, draft_model\); found 'magic'"),
    "unknown knob": (["--method", "suffix", "--knob", "depth=3"], "a knob of suffix .*max_depth.*found depth"),
    "knob of off": (["--knob", "alpha=1"], "a knob of off"),
    "knob of another type": (["--method", "suffix", "--knob", "alpha=lots"], "knob alpha; found 'lots'"),
    "knob out of range": (["--method", "suffix", "--knob", "alpha=nan"], "alpha=nan"),
    "knob without a value": (["--method", "suffix", "--knob", "alpha"], "--knob NAME=VALUE; found 'alpha'"),
    "knob twice": (["--method", "suffix", "--knob", "alpha=1", "--knob", "alpha=2"], "two"),
    "rows without a tree": (["--method", "suffix", "--tree-rows", 4], "tree"),
    "fewer rows than N": (["--method", "suffix", "-n", 5, "--tree", "--tree-rows", 4], "5 rows"),
    "tree from a chain's method": (["--method", "ngram", "--tree"], "chains for method ngram"),
    "no draft model": (["--method", "draft_model"], "--draft-model MODEL"),
    "draft type for nothing": (["--draft-dtype", "int8"], "--draft-dtype with --draft-model alone"),
    "draft model for nothing": (["--method", "suffix", "--draft-model", "/nowhere"], "--method suffix"),
    "temperature NaN": (["--temperature", "nan"], "temperature .*found nan"),
    "temperature below 0": (["--temperature", -1], "temperature .*found -1"),
    "temperature without end": (["--temperature", "inf"], "temperature .*found inf"),
    "top-k below 0": (["--top-k", -1], "top_k"),
    "top-p 0": (["--top-p", 0], "top_p"),
    "top-p NaN": (["--top-p", "nan"], "top_p"),
    "min-p over 1": (["--min-p", 2], "min_p"),
    "repetition penalty 0": (["--repetition-penalty", 0], "repetition_penalty"),
    "presence penalty NaN": (["--presence-penalty", "nan"], "presence_penalty"),
    "bias of words": (["--logit-bias", "a=b"], "--logit-bias ID=BIAS with numbers; found a=b"),
    "bias without a value": (["--logit-bias", "5"], "--logit-bias ID=BIAS; found '5'"),
    "bias NaN": (["--logit-bias", "5=nan"], "logit_bias .*found nan"),
    "bias without end": (["--logit-bias", "5=inf"], "logit_bias .*found inf"),
    "bias twice": (["--logit-bias", "5=1", "--logit-bias", "05=2"], "one bias per token"),
    "max tokens below 0": (["--max-tokens", -4], "max_tokens .*found -4"),
    "max tokens 0": (["--max-tokens", 0], "max_tokens .*found 0"),
    "min over max": (["--max-tokens", 4, "--min-tokens", 9], r"min_tokens .*max_tokens \(4\); found 9"),
    "seed below 0": (["--seed", -1], "seed"),
    "seed of 65 bits": (["--seed", 2**64], "seed"),
    "empty stop": (["--stop", ""], "stop"),
    "negative stop id": (["--stop-token-id", -3], "stop_token_ids"),
    "no choices": (["--choices", 0], "--choices of 1 or more; found 0"),
    "negative logprobs": (["--logprobs", -1], "logprobs"),
    "unknown flag": (["--wat"], "--wat"),
    "cut flag": (["--temp", 1], "--temp"),
    "unknown number type": (["--dtype", "float8"], "float8"),
    "unknown number type of keys": (["--kv-dtype", "int4"], "kv dtype auto, float32, bfloat16, int8; found 'int4'"),
    "size in words": (["--cache-bytes", "much"], "a size such as 2GiB .*found 'much'"),
    "two prompts": (["--prompt-file", "x"], "--prompt-file"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_are_refused_before_anything_is_loaded(generate: Run, name: str) -> None:
    flags, expected = FLAGS[name]
    line = refused(generate(*PROMPT, *flags, model="/nowhere"))
    assert re.search(expected, line), line


@pytest.mark.parametrize("words", [("brew",), ("models",), ("models", "brew"), ("generate",), ("tune", "--wat")])
def test_unknown_commands(forerun: Run, words: tuple[str, ...]) -> None:
    assert re.search(r"see `forerun( \w+)? --help`", refused(forerun(*words)))


def test_unknown_catalog_model(forerun: Run) -> None:
    assert "a catalog model (smollm2-135m); found 'gpt-17'" in refused(forerun("models", "pull", "gpt-17"))


def test_devices_that_are_not_there(generate: Run) -> None:
    for device in ("toaster", "meta", "cpu0"):
        assert repr(device) in refused(generate(*PROMPT, "--device", device))


PROMPT_FILES = {
    "empty": (b"", "at least one token; found nothing"),
    "only a byte order mark": (b"\xef\xbb\xbf", "at least one token; found nothing"),
    "Latin-1": (b"caf\xe9", "UTF-8 text in .*found byte 0xe9 at place 3"),
    "UTF-16": ("hello".encode("utf-16"), "UTF-8 text"),
    "binary": (b"\x7fELF\x02\x01\x01" + bytes(range(128, 256)), "UTF-8 text"),
}


@pytest.mark.parametrize("name", PROMPT_FILES)
def test_prompt_files(generate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    content, expected = PROMPT_FILES[name]
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    assert re.search(expected, refused(generate("--prompt-file", file, model="/nowhere")))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    line = refused(generate("--prompt-file", "-", model="/nowhere"))
    assert re.search(expected, line) and "standard input" in line


def test_prompt_files_that_are_none(generate: Run, tmp_path: Path) -> None:
    for path, found in ((tmp_path / "gone.txt", "No such file"), (tmp_path, "Is a directory")):
        line = refused(generate("--prompt-file", path, model="/nowhere"))
        assert str(path) in line and found in line


@pytest.mark.parametrize(
    ("text", "expected"), [("", "found nothing in --prompt"), ("a\udcff", "UTF-8 text in --prompt")]
)
def test_prompts(generate: Run, text: str, expected: str) -> None:
    assert expected in refused(generate("--prompt", text, model="/nowhere"))


def test_prompt_as_long_as_the_context(generate: Run, tiny: TinyModels) -> None:
    line = refused(generate("--prompt", "a" * 32, model=tiny.short))
    assert "a prompt shorter than the context of 32 tokens; found 32 tokens" in line
    assert generate("--prompt", "a" * 31, model=tiny.short).code == 0


def test_ids_outside_the_vocabulary(generate: Run) -> None:
    assert "below the vocabulary of 259; found 259" in refused(generate(*PROMPT, "--logit-bias", "259=1"))


def test_drafter_of_another_tokenizer_is_refused_by_name(generate: Run, tiny: TinyModels) -> None:
    line = refused(generate(*PROMPT, "--method", "draft_model", "--draft-model", tiny.foreign))
    assert "the tokenizer of target" in line and "found foreign, where id 3 is '!'" in line


def test_draft_model_that_is_not_there(generate: Run) -> None:
    line = refused(generate(*PROMPT, "--method", "draft_model", "--draft-model", "/nowhere"))
    assert "'/nowhere'" in line
