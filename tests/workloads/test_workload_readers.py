"""Readers over rows written here in each published shape: every row is read, or the line at fault is named."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import ForerunError
from forerun.workloads.readers.registry import FORMATS, read_prompts
from forerun.workloads.workload import group_by_workload

HUMAN_EVAL = {
    "task_id": "HumanEval/900",
    "prompt": 'def halve(x: float) -> float:\n    """Half of x."""\n',
    "entry_point": "halve",
    "canonical_solution": "    return x / 2\n",
    "test": "def check(candidate):\n    assert candidate(3) == 1.5\n",
}
GSM8K = {"question": "A crate holds 4 jars. How many do 3 hold?", "answer": "3*4=<<3*4=12>>12\n#### 12"}
MATH500 = {
    "problem": "What is $1/2 + 1/4$?",
    "solution": r"It is $\boxed{\frac{3}{4}}$.",
    "answer": r"\frac{3}{4}",
    "subject": "Prealgebra",
    "level": 1,
    "unique_id": "test/prealgebra/1.json",
}
MBPP = {
    "text": "Write a function to add two numbers.",
    "code": "def add(a, b):\r\n    return a + b",
    "task_id": 900,
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3"],
    "challenge_test_list": ["assert add(-1, 1) == 0"],
}
MBPP_SANITISED = {
    "source_file": "x",
    "task_id": 901,
    "prompt": "Write a function to root a number.",
    "code": "def root(a):\n    return math.sqrt(a)",
    "test_imports": ["import math"],
    "test_list": ["assert root(4) == math.sqrt(4)"],
}
MT_BENCH = {"question_id": 900, "category": "writing", "turns": ["Describe a fog.", "Now in ten words."]}
SPEC_BENCH = {
    "question_id": 901,
    "category": "math_reasoning",
    "turns": ["Two and two?"],
    "reference": ["2+2=4\n#### 4"],
}
RAG = {"question_id": 902, "category": "rag", "turns": ["Text. Who?"], "reference": [["a clerk", "the clerk"]]}
SHAREGPT = {
    "id": "abc_0",
    "conversations": [
        {"from": "human", "value": "Hello"},
        {"from": "gpt", "value": "Hello to you."},
        {"from": "human", "value": "Name a river."},
        {"from": "gpt", "value": "The Loire."},
    ],
}
TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
TRACE = {
    "version": 1,
    "turn_id": "t:0000",
    "task_id": "t",
    "conversation_id": "t",
    "conversation_idx": 0,
    "messages": [
        {"role": "user", "content": "List the files."},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "function", "index": 0, "function": {"name": "run", "arguments": '{"cmd":"ls"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    ],
    "tools": [TOOL],
    "target_output_tokens": 40,
    "simulated_tool_delay_ms_after": 1.5,
    "recorded_tool_calls_after": [],
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_human_eval(tmp_path: Path) -> None:
    path = tmp_path / "he.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(HUMAN_EVAL) + "\n").encode()))
    (prompt,) = read_prompts(path)
    assert (prompt.id, prompt.workload, prompt.source) == ("HumanEval/900", "human_eval", "human_eval")
    assert HUMAN_EVAL["prompt"] in prompt.messages[0].content
    assert prompt.reference
    result = prompt.check(prompt.reference, may_execute=True)
    assert result
    assert result.passed
    wrong = prompt.check("    return x", may_execute=True)
    assert wrong
    assert not wrong.passed
    assert prompt.check(prompt.reference) is None


def test_gsm8k_and_math500(tmp_path: Path) -> None:
    (gsm,) = read_prompts(write(tmp_path / "gsm.jsonl", [GSM8K]))
    (maths,) = read_prompts(write(tmp_path / "math.jsonl", [MATH500]))
    assert (gsm.source, maths.source) == ("gsm8k", "math500")
    for prompt in (gsm, maths):
        assert prompt.reference
        right, wrong = prompt.check(prompt.reference), prompt.check("It is 5.")
        assert right
        assert wrong
        assert right.passed
        assert not wrong.passed


def test_mbpp_in_both_published_shapes(tmp_path: Path) -> None:
    prompts = read_prompts(write(tmp_path / "mbpp.jsonl", [MBPP, MBPP_SANITISED]))
    assert [prompt.id for prompt in prompts] == ["mbpp/900", "mbpp/901"]
    for prompt in prompts:
        assert "should pass" in prompt.messages[0].content
    for prompt, code in zip(prompts, ("def add(a, b):\n    return a + b", "import math\nroot = math.sqrt")):
        result = prompt.check(code, may_execute=True)
        assert result
        assert result.passed, result.reason
    # The harder assertions run as well.
    result = prompts[0].check("def add(a, b):\n    return 3", may_execute=True)
    assert result
    assert not result.passed


def test_mt_bench_and_spec_bench_are_told_apart(tmp_path: Path) -> None:
    (mt,) = read_prompts(write(tmp_path / "mt.jsonl", [MT_BENCH]))
    assert (mt.workload, mt.later_turns) == ("mt_bench", ("Now in ten words.",))
    spec = read_prompts(write(tmp_path / "spec.jsonl", [MT_BENCH, SPEC_BENCH, RAG]))
    assert [p.workload for p in spec] == ["spec_bench/mt_bench", "spec_bench/math_reasoning", "spec_bench/rag"]
    assert spec[2].reference == "a clerk | the clerk"
    result = spec[1].check("So 4")
    assert result
    assert result.passed
    assert [group.name for group in group_by_workload(spec)] == [p.workload for p in spec]


def test_sharegpt_ends_at_the_last_human_turn(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps([SHAREGPT, {**SHAREGPT, "id": "b"}], indent=1))
    prompts = read_prompts(path)
    assert [prompt.id for prompt in prompts] == ["abc_0", "b"]
    assert [message.role for message in prompts[0].messages] == ["user", "assistant", "user"]
    assert prompts[0].reference == "The Loire."


def test_sharegpt_without_a_question_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps([SHAREGPT, {"id": "x", "conversations": []}], indent=1))
    line = path.read_text().split("\n").index('  "id": "x",')
    with pytest.raises(ForerunError, match=rf"line {line}; .*without a human turn"):
        read_prompts(path)


def test_agentperf_trace_and_manifest(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    second = {**TRACE, "turn_id": "t:0001", "target_output_tokens": None, "max_output_tokens": 99}
    write(tmp_path / "traces" / "t.jsonl", [TRACE, second])
    manifest = {
        "name": "mine",
        "mode": "single_user_agentic_replay",
        "version": 1,
        "tasks": [{"task_id": "t", "trace": "traces/t.jsonl", "model_calls": 2, "tool_calls": 2}],
    }
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest, indent=2))
    prompts = read_prompts(path)
    assert prompts == read_prompts(tmp_path / "traces" / "t.jsonl")
    assert [prompt.max_tokens for prompt in prompts] == [40, 99]
    assert prompts[0].tools[0].name == "run"
    call = prompts[0].messages[1].as_dict()["tool_calls"][0]
    assert call["function"]["arguments"] == {"cmd": "ls"}
    assert prompts[0].messages[2].as_dict()["tool_call_id"] == "c1"

    for key, value, fault in [
        ("model_calls", 3, "2 turns"),
        ("trace", "../t.jsonl", "below its manifest"),
        ("trace", "traces/none.jsonl", "readable"),
    ]:
        broken = {**manifest, "tasks": [{**manifest["tasks"][0], key: value}]}  # type: ignore[index]
        path.write_text(json.dumps(broken))
        with pytest.raises(ForerunError, match=fault):
            read_prompts(path)
    path.write_text(json.dumps({**manifest, "version": 2}))
    with pytest.raises(ForerunError, match="format version 1"):
        read_prompts(path)


def test_plain_rows(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "One?", "model": "ignored"},
        {"id": 7, "messages": [{"role": "user", "content": [{"type": "text", "text": "Two?"}]}], "tools": [TOOL]},
        {"text": "Once upon\u2028a time", "workload": "tales", "max_tokens": 9},
        {"prompt": "1+1?", "checker": {"kind": "answer", "expected": "2"}},
    ]
    prompts = read_prompts(write(tmp_path / "mine.jsonl", rows))
    assert [prompt.id for prompt in prompts] == ["mine.jsonl:1", "7", "mine.jsonl:3", "mine.jsonl:4"]
    assert [prompt.workload for prompt in prompts] == ["prompts", "prompts", "tales", "prompts"]
    assert prompts[1].messages[0].content == "Two?"
    assert prompts[2].text == "Once upon\u2028a time"
    result = prompts[3].check("it is 2")
    assert result
    assert result.passed


def test_text_files(tmp_path: Path) -> None:
    path = tmp_path / "my.txt"
    path.write_bytes("\ufeffFirst\nline.\r\n\r\n \nSecond.\n".encode())
    assert [prompt.plain_text for prompt in read_prompts(path)] == ["First\nline.", "Second."]
    (whole,) = read_prompts(path, "whole_file")
    assert whole.plain_text.startswith("First")
    assert whole.plain_text.endswith("Second.\n")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"prompt": "a"}\n{"prompt": "b"\n', "line 2"),
        ('{"prompt": "a"}\n\n{"promt": "b"}\n', "line 3; .*none"),
        ('{"prompt": "a"}\n{"prompt": "b", "text": "c"}\n', "line 2; .*prompt, text"),
        ('{"prompt": "a"}\n[1]\n', "line 2: a list"),
        ('{"prompt": "a"}\n{"prompt": "  "}\n', "line 2; .*empty"),
        ('{"prompt": "a"}\n{"prompt": 5}\n', "line 2; .*prompt"),
        ('{"prompt": "a"}\n{"messages": [{"role": "usr", "content": "x"}]}\n', "line 2; .*role"),
        ('{"prompt": "a"}\n{"messages": [{"role": "user", "content": [{"type": "image"}]}]}\n', "line 2"),
        ('{"prompt": "a"}\n{"prompt": "b", "checker": {"kind": "tool_call", "name": "f"}}\n', "line 2; .*lacks"),
        ('{"id": 1, "prompt": "a"}\n{"id": 1, "prompt": "b"}\n', "twice"),
        ('[{"prompt": "a"},\n {"prompt": "b"}\n {"prompt": "c"}]', "line 3: neither"),
        ('[{"prompt": "a"},\n {"prompt": }]', "line 2"),
        ('[{"prompt": "a"},\n]', "line 2"),
        ('[{"prompt": "a"}]\nx', "after the end"),
        ('{"question": "a"}\n', "with question"),
        ("[]", "at least one row"),
        ("", "at least one row"),
    ],
)
def test_malformed_files_name_the_line(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(ForerunError, match=fault) as caught:
        read_prompts(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "format"),
    [
        (HUMAN_EVAL, "human_eval"),
        (GSM8K, "gsm8k"),
        (MATH500, "math500"),
        (MBPP, "mbpp"),
        (MT_BENCH, "mt_bench"),
        (SPEC_BENCH, "spec_bench"),
        (SHAREGPT, "sharegpt"),
        (TRACE, "agentperf_trace"),
    ],
)
def test_a_missing_field_names_the_line(tmp_path: Path, row: dict[str, Any], format: str) -> None:
    needed = {"human_eval": "test", "gsm8k": "answer", "math500": "answer", "mbpp": "test_list"}.get(format, "")
    needed = needed or {"sharegpt": "conversations", "agentperf_trace": "messages"}.get(format, "turns")
    broken = {key: value for key, value in row.items() if key != needed}
    path = write(tmp_path / "rows.jsonl", [row, broken])
    for asked in ("auto", format):
        with pytest.raises(ForerunError, match=rf"line 2; .*{needed}"):
            read_prompts(path, asked)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ForerunError, match="No such file"):
        read_prompts(tmp_path / "none.jsonl")
    with pytest.raises(ForerunError, match="a format among"):
        read_prompts(tmp_path / "none.jsonl", "csv")
    (tmp_path / "latin.txt").write_bytes(b"one\ntwo \xe9\n")
    with pytest.raises(ForerunError, match="0xe9 on line 2"):
        read_prompts(tmp_path / "latin.txt")
    packed = gzip.compress(b'{"prompt": "a"}\n' * 50)
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ForerunError, match="whole gzip"):
        read_prompts(tmp_path / "cut.jsonl.gz")


def test_every_format_is_listed() -> None:
    assert len(set(FORMATS)) == len(FORMATS) == 13
