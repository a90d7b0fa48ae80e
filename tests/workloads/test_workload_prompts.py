"""The shipped prompts: enough of each kind, no twins, checkers that pass the right answer and fail a wrong one."""

import json
from dataclasses import replace
from importlib import resources

import pytest

from forerun.errors import ForerunError
from forerun.workloads.catalog import CONTROL, NAMES, ORDINARY, load_workload, load_workloads
from forerun.workloads.checkers.answer import AnswerChecker
from forerun.workloads.checkers.json_object import JsonChecker
from forerun.workloads.checkers.language import LanguageChecker
from forerun.workloads.checkers.tool_call import ToolCallChecker
from forerun.workloads.message import Message, ToolCall
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.plain import PlainRow
from forerun.workloads.repetition import score_text

PROMPTS = {name: load_workload(name).prompts for name in NAMES}
ALL = [prompt for prompts in PROMPTS.values() for prompt in prompts]
CHECKED = [prompt for prompt in ALL if prompt.checker]
ids = pytest.mark.parametrize("prompt", CHECKED, ids=lambda prompt: prompt.id)

GERMAN = "Das Wetter ist heute nicht so schön, und der Bus kommt auch zu spät."
ENGLISH = "The sky is grey this morning and the bus is late, as it was on Monday."


def shingles(prompt: Prompt) -> set[str]:
    text = "".join(prompt.plain_text.split()).lower()
    return {text[start : start + 12] for start in range(len(text) - 11)}


def given(prompt: Prompt) -> str:
    """All text that the model gets."""
    return "\n".join(message.content for message in prompt.messages_without_tools()) or prompt.plain_text


@pytest.mark.parametrize("name", NAMES)
def test_each_workload_is_large_enough_and_named_after_itself(name: str) -> None:
    assert len(PROMPTS[name]) >= 24
    assert all(prompt.id.startswith(f"{name}/") and prompt.workload == name for prompt in PROMPTS[name])
    assert load_workload(name).is_control is (name == CONTROL)


def test_rows_have_no_field_that_would_be_ignored() -> None:
    for name in NAMES:
        text = (resources.files("forerun.workloads") / "prompts" / f"{name}.jsonl").read_text(encoding="utf-8")
        for line in text.split("\n")[:-1]:
            assert json.loads(line).keys() <= PlainRow.model_fields.keys()


def test_ids_are_unique() -> None:
    assert len({prompt.id for prompt in ALL}) == len(ALL)


def test_no_two_prompts_are_near_duplicates() -> None:
    seen = [(prompt.id, shingles(prompt)) for prompt in ALL]
    twins = [
        (first, second)
        for index, (first, a) in enumerate(seen)
        for second, b in seen[index + 1 :]
        if len(a & b) > 0.2 * min(len(a), len(b))
    ]
    assert twins == []


def test_lengths_vary_within_bounds() -> None:
    for prompt in ALL:
        assert 100 <= len(given(prompt).encode()) <= 3000, prompt.id
    for name, prompts in PROMPTS.items():
        sizes = [len(given(prompt)) for prompt in prompts]
        assert max(sizes) > 1.6 * min(sizes), name


def test_repetition_sets_the_control_apart() -> None:
    for prompt in ALL:
        share = score_text(prompt.plain_text).repeated_ngrams
        if prompt.workload == CONTROL:
            assert share > 0.5, (prompt.id, share)
        else:
            assert share < 0.25, (prompt.id, share)


def test_the_checkable_workloads_are_checked() -> None:
    for name in ("maths", "extraction", "tool_call", "translation", "question", "code_edit"):
        assert all(prompt.checker and prompt.reference for prompt in PROMPTS[name]), name
    for name in ("prose", "summary", "chinese"):
        assert all(prompt.checker for prompt in PROMPTS[name]), name
    assert not any(prompt.checker for prompt in PROMPTS[CONTROL])
    assert sum(prompt.checker is not None for prompt in PROMPTS["code"]) >= 12


def test_chats_have_earlier_turns_and_end_with_the_user() -> None:
    for prompt in PROMPTS["chat"]:
        roles = [message.role for message in prompt.messages if message.role != "system"]
        assert len(roles) >= 3
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


@ids
def test_references_pass_their_own_checker(prompt: Prompt) -> None:
    if prompt.reference is None:
        return
    result = prompt.check(prompt.reference, may_execute=True)
    assert result
    assert result.passed, result.reason


@ids
def test_unrelated_output_fails(prompt: Prompt) -> None:
    is_german = isinstance(prompt.checker, LanguageChecker) and prompt.checker.language == "de"
    for output in ("", ENGLISH if is_german else GERMAN):
        result = prompt.check(output, may_execute=True)
        assert result
        assert not result.passed, output


@ids
def test_nearly_right_output_fails(prompt: Prompt) -> None:
    checker = prompt.checker
    if isinstance(checker, AnswerChecker):
        outputs = [f"The answer is {checker.expected}1."]
    elif isinstance(checker, JsonChecker):
        outputs = [json.dumps({**checker.expected, key: "?"}) for key in checker.expected]
        outputs += [json.dumps({k: v for k, v in checker.expected.items() if k != key}) for key in checker.expected]
    elif isinstance(checker, ToolCallChecker):
        assert prompt.reference
        right = json.loads(prompt.reference.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"))
        outputs = [json.dumps({**right, "name": "no_such_tool"}), json.dumps({**right, "arguments": {}})]
        outputs += [json.dumps({**right, "arguments": {**right["arguments"], "surplus": 1}})]
    else:
        return
    for output in outputs:
        result = checker.check(output)
        assert not result.passed, output


@pytest.mark.parametrize("name", ["maths", "extraction", "tool_call", "code_edit", "code"])
def test_echoing_the_prompt_is_no_answer(name: str) -> None:
    for prompt in PROMPTS[name]:
        result = prompt.check(prompt.plain_text, may_execute=True)
        assert result is None or not result.passed, prompt.id


def test_translations_are_not_passed_by_their_source() -> None:
    for prompt in PROMPTS["translation"]:
        source = prompt.messages[0].content.partition("\n\n")[2]
        result = prompt.check(source)
        assert result
        assert not result.passed, prompt.id


def test_tools_can_be_written_into_the_system_turn() -> None:
    for prompt in PROMPTS["tool_call"]:
        first = prompt.messages_without_tools()[0]
        assert first.role == "system"
        assert all(tool.name in first.content for tool in prompt.tools)
    call = Message("assistant", "", (ToolCall("run", '{"cmd": "ls"}'),))
    chat = Prompt("a", "b", (Message("user", "Which files?"), call, Message("tool", "a.txt", tool_call_id="1")))
    assert [(message.role, message.content) for message in chat.messages_without_tools()] == [
        ("user", "Which files?"),
        ("assistant", '<tool_call>\n{"name": "run", "arguments": {"cmd": "ls"}}\n</tool_call>'),
        ("user", "<tool_response>\na.txt\n</tool_response>"),
    ]
    plain = PROMPTS["maths"][0]
    assert plain.messages_without_tools() == plain.messages


def test_unknown_workload_names_the_known_ones() -> None:
    with pytest.raises(ForerunError, match=r"a workload among code, code_edit.*'poetry'"):
        load_workload("poetry")
    assert [workload.name for workload in load_workloads(("maths", "code"))] == ["maths", "code"]
    assert {workload.name for workload in load_workloads()} == {*ORDINARY, CONTROL}


def test_a_prompt_has_messages_or_text() -> None:
    with pytest.raises(ValueError, match="not both"):
        Prompt("a", "b")
    with pytest.raises(ValueError, match="not both"):
        replace(PROMPTS["maths"][0], text="raw")
