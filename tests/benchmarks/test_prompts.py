"""Prompts reach every engine as the target's own ids; those to choose on are never those to compare on."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.load import read_machine
from benchmarks.prompts import halves, prompt_ids
from transformers import AutoTokenizer

from forerun.errors import ForerunError
from forerun.models.tokenizer import Tokenizer
from forerun.workloads.catalog import load_workload
from support.tiny_directory import save_tiny_directory

BUSY = """
import time
end = time.process_time() + 0.5
while time.process_time() < end:
    pass
print("done", flush=True)
input()
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    directory = save_tiny_directory(tmp_path_factory.mktemp("tiny"))
    return Tokenizer(AutoTokenizer.from_pretrained(directory), label="tiny")


def test_halves_share_no_prompt_and_follow_the_seed(tokenizer: Tokenizer) -> None:
    parts = halves("code", tokenizer, 100_000, seed=0)
    chosen, measured = ({prompt.id for prompt in half} for half in (parts.choose, parts.measure))
    assert not chosen & measured and len(chosen | measured) == len(load_workload("code").prompts)
    assert halves("code", tokenizer, 100_000, seed=0) == parts
    assert halves("code", tokenizer, 100_000, seed=1) != parts


def test_prompts_that_do_not_fit_are_left_out(tokenizer: Tokenizer) -> None:
    everything = halves("code", tokenizer, 100_000, seed=0)
    limit = sorted(len(prompt.token_ids) for prompt in everything.measure)[4]
    parts = halves("code", tokenizer, limit, seed=0)
    assert parts.measure == tuple(prompt for prompt in everything.measure if len(prompt.token_ids) <= limit)
    assert 5 <= len(parts.measure) < len(everything.measure)


def test_ids_come_from_the_chat_template(tokenizer: Tokenizer) -> None:
    prompt = load_workload("code").prompts[0]
    text = tokenizer.decode(prompt_ids(prompt, tokenizer))
    assert text.startswith("<s>user: ") and text.endswith("<s>assistant: ")


def test_human_eval_is_read_from_the_cache(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path))
    (tmp_path / "prompts").mkdir()
    row = {"task_id": "HumanEval/0", "prompt": "def f():\n", "entry_point": "f", "canonical_solution": "", "test": "t"}
    with gzip.open(tmp_path / "prompts" / "HumanEval.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(row | {"task_id": f"HumanEval/{i}"}) + "\n" for i in range(4)))
    parts = halves("human_eval", tokenizer, 1000, seed=0)
    assert {prompt.id for prompt in (*parts.choose, *parts.measure)} == {f"HumanEval/{i}" for i in range(4)}


def test_an_unknown_workload_is_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(ForerunError, match="human_eval"):
        halves("nothing", tokenizer, 100, seed=0)


def test_the_engine_at_work_counts_as_ours() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        before = read_machine(child.pid)
        assert child.stdout is not None
        child.stdout.readline()
        after, without = read_machine(child.pid), read_machine(2**22 + 1)
        child.kill()
    assert after.own_cpu_seconds - before.own_cpu_seconds > 0.3
    assert after.own_cpu_seconds - without.own_cpu_seconds > 0.3  # a pid that is none: only this process
    assert after.involuntary_switches >= before.involuntary_switches
