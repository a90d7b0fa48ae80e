"""``forerun generate``: text and counts, one text whatever is drafted, every flag in its place."""

from __future__ import annotations

import dataclasses
import io
import re
import sys
from pathlib import Path

import pytest

from forerun.cli.generate import add_flags
from forerun.cli.parser import Parser, sampling_params
from forerun.engine.engine import Engine
from forerun.models.loading.int8_gate import write_gate
from forerun.models.loading.load_target import load_target
from forerun.models.native.kernels import find_kernels
from forerun.sampling.params import SamplingParams
from support.command import Run, TinyModels

PROMPT = "def area(width, height): return width * height; def area(width"
SHORT = ("--prompt", PROMPT, "--max-tokens", 24)
KEYS = {"text", "token_ids", "finish_reason", "seed", "counts", "timings", "conditions"}
COUNTS = {"rounds", "rounds_without_draft", "drafted", "accepted", "emitted", "positions"}
METHODS = {
    "off": ("--method", "off"),
    "ngram": ("--method", "ngram", "-n", 3),
    "suffix": ("--method", "suffix", "-n", 3),
    "suffix tree": ("--method", "suffix", "-n", 4, "--tree", "--tree-rows", 9),
    "suffix knobs": ("--method", "suffix", "-n", 7, "--knob", "alpha=4", "--knob", "min_token_prob=0"),
    "draft_model": ("--method", "draft_model", "-n", 3, "--draft-model", "DRAFT"),
    "draft_model tree": ("--method", "draft_model", "-n", 2, "--tree", "--draft-model", "DRAFT"),
    "itself": ("--method", "draft_model", "-n", 5, "--draft-model", "TARGET"),
    "itself in another type": (
        "--method",
        "draft_model",
        "-n",
        5,
        "--draft-model",
        "TARGET",
        "--draft-dtype",
        "bfloat16",
    ),
}


def method_flags(name: str, tiny: TinyModels) -> list[object]:
    paths = {"DRAFT": tiny.draft, "TARGET": tiny.target}
    return [paths.get(str(word), word) for word in METHODS[name]]


def test_text_streams_to_stdout_and_the_counts_follow_on_stderr(generate: Run) -> None:
    flags = (*SHORT, "--seed", 5, "--temperature", 0.8, "--method", "suffix", "-n", 3)
    whole, shown = generate(*flags, "--json").json, generate(*flags)
    counts = whole["counts"]
    assert shown.code == 0
    assert shown.out == whole["text"] + "\n"
    for part in (
        f"{len(whole['token_ids'])} tokens; finish: {whole['finish_reason']}; seed 5;",
        f"{counts['rounds']} rounds ({counts['rounds_without_draft']} without a draft)",
        f"{counts['accepted']} of {counts['drafted']} drafted tokens accepted",
    ):
        assert part in shown.err


def test_json_is_one_object_on_one_line(generate: Run, tiny: TinyModels) -> None:
    outcome = generate(*SHORT, "--json", "--seed", 1, "--temperature", 1, *method_flags("itself", tiny))
    assert outcome.out.count("\n") == 1 and outcome.out.isascii()
    found = outcome.json
    assert set(found) == KEYS
    counts = found["counts"]
    assert set(counts) == COUNTS
    assert counts["drafted"] >= counts["accepted"] > 0
    assert counts["emitted"] == len(found["token_ids"]) - 1
    assert all(len(position) == 3 for position in counts["positions"])
    assert [sum(column) for column in zip(*counts["positions"])][::2] == [counts["drafted"], counts["accepted"]]
    conditions = found["conditions"]
    assert conditions["method"] == "draft_model" and conditions["num_speculative_tokens"] == 5
    assert conditions["target"]["hash"] == conditions["drafter"]["hash"] != "none"
    assert conditions["ended_at"] >= conditions["started_at"]
    assert outcome.err == ""


@pytest.mark.parametrize(("flag", "named"), [("auto", "float32"), ("bf16", "bfloat16"), ("int8", "int8")])
def test_keys_and_values_have_the_number_type_asked_for(generate: Run, flag: str, named: str) -> None:
    flags = (*SHORT, "--seed", 3, "--dtype", "float32", "--kv-dtype", flag, "--json")
    plain, drafted = generate(*flags).json, generate(*flags, "--method", "suffix", "-n", 3).json
    assert plain["conditions"]["kv_dtype"] == named
    assert plain["token_ids"] == drafted["token_ids"]


@pytest.mark.parametrize(("short", "full"), [("fp32", "float32"), ("bf16", "bfloat16")])
def test_number_types_have_short_names_for_weights_too(generate: Run, tiny: TinyModels, short: str, full: str) -> None:
    drafting = ("--method", "draft_model", "-n", 2, "--draft-model", tiny.draft)
    shortly, fully = (
        generate(*SHORT, "--json", "--dtype", name, "--draft-dtype", name, *drafting).json for name in (short, full)
    )
    for role in ("target", "drafter"):
        assert shortly["conditions"][role] == fully["conditions"][role]
    assert shortly["conditions"]["kv_dtype"] == full
    assert shortly["token_ids"] == fully["token_ids"]


def test_half_precision_is_refused_on_a_cpu_alone(generate: Run) -> None:
    refusal = generate(*SHORT, "--dtype", "fp16", "--device", "cpu")
    assert refusal.code == 2 and "bfloat16 or float32 on a CPU; found float16" in refusal.err


@pytest.mark.skipif(find_kernels() is None, reason="no kernels are built")
def test_int8_weights_are_called_what_their_artifact_calls_them(
    generate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path))
    flags = (*SHORT, "--dtype", "int8", "--device", "cpu", "--json")
    outcome = generate(*flags)
    said = "forerun: int8 weights, {} (docs/quantisation.md)\n"
    assert outcome.err == said.format("lossy: KL to fp32 not measured")
    write_gate(outcome.json["conditions"]["target"]["hash"], 0.004, 1100)
    assert generate(*flags).err == said.format("mean KL to fp32 0.0040 over 1100 positions")


def test_an_inexact_run_says_so(generate: Run) -> None:
    flags = (*SHORT, "--dtype", "float32")
    exact, inexact = generate(*flags, "--json").json, generate(*flags, "--json", "--inexact").json
    named = [dict(found["conditions"]["flags"])["exact"] for found in (exact, inexact)]
    assert named == ["True", "False"]
    assert "inexact" in generate(*flags, "--inexact").err and "inexact" not in generate(*flags).err


def test_a_run_keeps_to_the_memory_it_was_given_or_says_what_would_fit(generate: Run) -> None:
    flags = ("--dtype", "float32", "--prompt", PROMPT, "--max-tokens", 24)
    refusal = generate(*flags, "--cache-bytes", "8KiB")
    assert refusal.code == 2 and "which take" in refusal.err and "raise cache_bytes to" in refusal.err
    enough = refusal.err.split("raise cache_bytes to ")[1].split()[0]
    assert generate(*flags, "--cache-bytes", enough).code == 0
    assert generate(*flags, "--cache-bytes", int(enough) - 1).code == 2


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_one_seed_gives_one_text_with_every_method(generate: Run, tiny: TinyModels, temperature: float) -> None:
    flags = (*SHORT, "--json", "--seed", 11, "--temperature", temperature, "--ignore-eos")
    plain = generate(*flags).json
    assert len(plain["token_ids"]) == 24
    num_drafted = 0
    for name in METHODS:
        found = generate(*flags, *method_flags(name, tiny)).json
        assert (found["text"], found["token_ids"]) == (plain["text"], plain["token_ids"]), name
        num_drafted += found["counts"]["drafted"]
    assert num_drafted > 50


def test_the_printed_seed_gives_the_text_again(generate: Run) -> None:
    flags = (*SHORT, "--temperature", 1.2)
    first, other = generate(*flags), generate(*flags)
    seed = re.search(r"seed (\d+);", first.err)
    assert seed is not None
    assert first.out != other.out
    assert generate(*flags, "--seed", seed[1]).out == first.out


SAMPLING_FLAGS = {
    "temperature": (["--temperature", "0.7"], 0.7),
    "top_k": (["--top-k", "9"], 9),
    "top_p": (["--top-p", "0.9"], 0.9),
    "min_p": (["--min-p", "0.05"], 0.05),
    "repetition_penalty": (["--repetition-penalty", "1.3"], 1.3),
    "presence_penalty": (["--presence-penalty", "0.4"], 0.4),
    "frequency_penalty": (["--frequency-penalty", "-0.2"], -0.2),
    "logit_bias": (["--logit-bias", "5=2.5", "--logit-bias", "6=-inf"], ((5, 2.5), (6, float("-inf")))),
    "min_tokens": (["--min-tokens", "4"], 4),
    "max_tokens": (["--max-tokens", "33"], 33),
    "stop": (["--stop", "one", "--stop", "two"], ("one", "two")),
    "stop_token_ids": (["--stop-token-id", "7", "--stop-token-id", "8"], (7, 8)),
    "ignore_eos": (["--ignore-eos"], True),
    "seed": (["--seed", str(2**64 - 1)], 2**64 - 1),
    "n": (["--choices", "3"], 3),
    "logprobs": (["--logprobs", "2"], 2),
}


def test_every_sampling_value_has_a_flag() -> None:
    assert set(SAMPLING_FLAGS) == {field.name for field in dataclasses.fields(SamplingParams)}
    parser = Parser()
    add_flags(parser)
    assert sampling_params(parser.parse_args(["--prompt", "x"])) == SamplingParams()
    for name, (words, value) in SAMPLING_FLAGS.items():
        params = sampling_params(parser.parse_args(["--prompt", "x", *words]))
        assert params == dataclasses.replace(SamplingParams(), **{name: value}), name


def test_sampling_flags_act(generate: Run) -> None:
    plain = generate(*SHORT, "--json").json
    first = plain["token_ids"][0]
    banned = generate(*SHORT, "--json", "--logit-bias", f"{first}=-inf", "--method", "suffix").json
    assert first not in banned["token_ids"]
    stopped = generate(*SHORT, "--json", "--stop-token-id", plain["token_ids"][6], "--min-tokens", 3).json
    assert stopped["finish_reason"] == "stop" and len(stopped["token_ids"]) <= 7
    with_logprobs = generate(*SHORT, "--json", "--logprobs", 2).json["logprobs"]
    assert len(with_logprobs) == 24


def test_choices_come_separately(generate: Run) -> None:
    flags = (*SHORT, "--temperature", 1, "--seed", 3, "--choices", 3)
    choices = generate(*flags, "--json").json["choices"]
    assert [set(choice) for choice in choices] == [KEYS] * 3
    assert len({choice["text"] for choice in choices}) == 3
    shown = generate(*flags)
    for number, choice in enumerate(choices):
        assert f"choice {number}:\n{choice['text']}\n" in shown.out
        assert f"choice {number}: {len(choice['token_ids'])} tokens" in shown.err
    alone = generate(*SHORT, "--temperature", 1, "--seed", 3, "--json").json
    assert alone["text"] == choices[0]["text"]


def test_prompts_from_files_and_standard_input_keep_their_bytes(
    generate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "line one\r\nline two\n\u4f60\u597d"
    file = tmp_path / "prompt.txt"
    file.write_bytes(text.encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    flags = ("--max-tokens", 8, "--json")
    given = generate("--prompt", text, *flags).json
    assert generate("--prompt-file", file, *flags).json["token_ids"] == given["token_ids"]
    assert generate("--prompt-file", "-", *flags).json["token_ids"] == given["token_ids"]
    file.write_bytes(text.replace("\r", "").encode())
    assert generate("--prompt-file", file, *flags).json["token_ids"] != given["token_ids"]


def test_chat_is_the_library_with_the_models_own_template(generate: Run, tiny: TinyModels) -> None:
    loaded = load_target(tiny.target, dtype="float32", device="cpu")
    assert loaded.tokenizer is not None
    (expected,) = Engine(loaded).generate(
        [loaded.tokenizer.chat([{"role": "user", "content": PROMPT}])], SamplingParams(max_tokens=24)
    )
    found = generate(*SHORT, "--chat", "--json").json
    assert tuple(found["token_ids"]) == expected.token_ids
    assert found["token_ids"] != generate(*SHORT, "--json").json["token_ids"]


def test_an_output_ends_where_the_context_does(generate: Run, tiny: TinyModels) -> None:
    found = generate("--prompt", "a" * 30, "--max-tokens", 10**12, "--ignore-eos", "--json", model=tiny.short).json
    assert len(found["token_ids"]) == 2 and found["finish_reason"] == "length"


GREEN, RED_STRUCK, BLUE = "\x1b[32m", "\x1b[9;31m", "\x1b[1;34m"


def test_rounds_are_coloured(generate: Run, tiny: TinyModels, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = (*SHORT, "--show-rounds", "--seed", 1, "--ignore-eos")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    right = generate(*flags, *method_flags("itself", tiny)).out
    wrong = generate(*flags, *method_flags("draft_model", tiny)).out
    assert right.count(GREEN) > 10 and RED_STRUCK not in right
    assert wrong.count(RED_STRUCK) > 10
    assert BLUE in right and BLUE in wrong


def test_rounds_without_a_terminal_are_plain_lines(generate: Run, tiny: TinyModels) -> None:
    flags = (*SHORT, "--seed", 1, "--temperature", 1.5, *method_flags("itself", tiny))
    whole = generate(*flags, "--json").json
    out = generate(*flags, "--show-rounds").out
    rounds = [line for line in out.split("\n") if re.match(r" *(prefill|round \d+) ", line)]
    assert len(rounds) == whole["counts"]["rounds"] + 1
    accepted = [re.search(r"(\d+) of (\d+) accepted$", line) for line in rounds]
    assert sum(int(found[1]) for found in accepted if found) == whole["counts"]["accepted"]
    assert sum(int(found[2]) for found in accepted if found) == whole["counts"]["drafted"]
    # What the model wrote can't move the cursor.
    assert all(sign.isprintable() or sign == "\ufffd" for line in rounds for sign in line)
    assert out.endswith(whole["text"] + "\n")
