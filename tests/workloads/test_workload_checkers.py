"""Checkers: what passes, what fails, what each forgives and what it doesn't."""

import pytest
from pydantic import TypeAdapter, ValidationError

from forerun.errors import ForerunError
from forerun.workloads.checkers.answer import AnswerChecker, final_answer
from forerun.workloads.checkers.code import CodeChecker, extract_code
from forerun.workloads.checkers.contains import ContainsChecker, RegexChecker
from forerun.workloads.checkers.json_object import JsonChecker
from forerun.workloads.checkers.json_schema import schema_fault
from forerun.workloads.checkers.json_text import json_values
from forerun.workloads.checkers.language import detect_language
from forerun.workloads.checkers.spec import CheckerSpec
from forerun.workloads.checkers.tool_call import ToolCallChecker, tool_calls
from forerun.workloads.tool import Tool

WEATHER = Tool(
    "get_weather",
    "Weather at a place.",
    {
        "type": "object",
        "properties": {
            "place": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["place"],
        "additionalProperties": False,
    },
)
CLOCK = Tool("get_time", "Time at a place.", {"type": "object", "properties": {"place": {"type": "string"}}})


@pytest.mark.parametrize(
    ("output", "expected", "passed"),
    [
        ("3 boxes hold 4 each, so 12 in all.", "12", True),
        ("12 in all, or 3 per box", "12", False),
        ("The total is $1,250.50.", "1250.5", True),
        ("so x = -7.", "-7", True),
        ("so x = -7.", "7", False),
        ("work 5\n#### 42", "42", True),
        ("#### Step 1\nadd\n#### Step 2\nThe answer is 9", "9", True),
        (r"thus \boxed{\frac{3}{4}} as 12 shows", "0.75", True),
        (r"thus \boxed{\dfrac34}", r"\frac{3}{4}", True),
        (r"\boxed{2\sqrt{3} + 1}", r"2\sqrt3+1", True),
        (r"\boxed{(3, \frac{\pi}{2})}", r"\left( 3, \frac{\pi}{2} \right)", True),
        (r"\boxed{x^2}", "x^3", False),
        ("That makes 75% in all", "75", True),
        ("answer: 3/4", "0.75", True),
        ("between 10-12", "12", True),
        ("nothing here", "1", False),
        (r"unfinished \boxed{12", "12", True),
    ],
)
def test_answer(output: str, expected: str, passed: bool) -> None:
    assert AnswerChecker(expected).check(output).passed is passed


def test_answer_division_by_zero_is_no_number() -> None:
    assert not AnswerChecker("1").check(r"\boxed{\frac{1}{0}}").passed
    assert final_answer("") is None


def test_json_keys_values_and_what_is_forgiven() -> None:
    checker = JsonChecker({"name": "Ada Bakery", "seats": 12, "tags": ["a", "b"]}, any_value=("note",))
    good = '```json\n{"name": "ada  bakery", "seats": 12.0, "tags": ["a", "b"], "note": null}\n```'
    assert checker.check(good).passed
    assert checker.check("Here {you} are: " + good).passed
    assert "missing keys ['note']" in checker.check('{"name": "Ada Bakery", "seats": 12, "tags": ["a", "b"]}').reason
    assert "unexpected keys ['x']" in checker.check(good.replace('"note"', '"x": 1, "note"')).reason
    assert "tags" in checker.check(good.replace('["a", "b"]', '["b", "a"]')).reason
    assert "seats" in checker.check(good.replace("12.0", "true")).reason
    assert checker.check(good[:30]).reason == "no JSON object in the output"


def test_json_values_are_outermost_and_in_order() -> None:
    assert list(json_values('x {"a": {"b": 1}} [1, 2] {broken {"c": 3}')) == [{"a": {"b": 1}}, [1, 2], {"c": 3}]


@pytest.mark.parametrize(
    "cut", ['[{"a": 1}, {"b"', '{"x": [{"a": 1}, ', '{"x": {"a": 1}, "y": "unfinis', '{"x": {"a": 1}']
)
def test_json_values_of_a_text_that_is_cut_off(cut: str) -> None:
    assert list(json_values('{"whole": 1} ' + cut)) == [{"whole": 1}]


@pytest.mark.parametrize(
    "output",
    [
        '<tool_call>\n{"name": "get_weather", "arguments": {"place": "Oslo", "days": 3}}\n</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": {"place": "oslo", "days": 3}}',
        '<tool_call>[{"name": "get_weather", "arguments": {"place": "Oslo", "days": 3}}]</tool_call>',
        '```json\n{"name": "get_weather", "arguments": {"place": "Oslo", "days": 3}}\n```',
        '{"name": "get_weather", "parameters": {"place": "Oslo", "days": 3}}',
        '{"function": {"name": "get_weather", "arguments": "{\\"place\\": \\"Oslo\\", \\"days\\": 3}"}}',
    ],
)
def test_tool_call_formats(output: str) -> None:
    checker = ToolCallChecker((WEATHER, CLOCK), "get_weather", {"place": "Oslo", "days": 3})
    assert checker.check(output).passed, checker.check(output).reason


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ('{"name": "get_wether", "arguments": {"place": "Oslo"}}', "no tool here"),
        ('{"name": "get_time", "arguments": {"place": "Oslo"}}', "'get_weather' expected"),
        ('{"name": "get_weather", "arguments": {"days": 3}}', "lacks 'place'"),
        ('{"name": "get_weather", "arguments": {"place": "Oslo", "days": 9}}', "out of bounds"),
        ('{"name": "get_weather", "arguments": {"place": "Oslo", "days": "3"}}', "type integer"),
        ('{"name": "get_weather", "arguments": {"place": "Oslo", "unit": "kelvin"}}', "one of"),
        ('{"name": "get_weather", "arguments": {"place": "Oslo", "hour": 1}}', "unknown 'hour'"),
        ('{"name": "get_weather", "arguments": {"place": "Bergen"}}', "'Oslo' expected"),
        ('{"name": "get_weather", "arguments": "place=Oslo"}', "type object"),
        ("It is sunny in Oslo.", "no tool call"),
    ],
)
def test_tool_call_faults(call: str, reason: str) -> None:
    result = ToolCallChecker((WEATHER, CLOCK), "get_weather", {"place": "Oslo"}).check(call)
    assert not result.passed
    assert reason in result.reason


def test_tagged_calls_win_over_other_json() -> None:
    output = '{"name": "get_time", "arguments": {}} <tool_call>{"name": "get_weather", "arguments": {}}</tool_call>'
    assert list(tool_calls(output)) == [("get_weather", {})]


def test_schema_lists_patterns_and_choices() -> None:
    schema = {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [{"type": "string", "pattern": "^[A-Z]"}, {"type": "number", "exclusiveMinimum": 0}]},
    }
    assert schema_fault(schema, ["Abc", 2]) is None
    assert schema_fault(schema, [])
    assert schema_fault(schema, ["abc"])
    assert schema_fault(schema, [0])
    assert schema_fault({"type": ["string", "null"]}, None) is None
    assert schema_fault({"type": "boolean"}, 1)
    assert schema_fault({"type": "integer"}, 2.0) is None
    assert schema_fault({"type": "object", "additionalProperties": {"type": "number"}}, {"a": "x"})


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The harbour was quiet when the boats came in.", "en"),
        ("Der Hafen war still, als die Boote mit dem Fang kamen.", "de"),
        ("Le port était calme quand les bateaux sont rentrés avec la marée.", "fr"),
        ("El puerto estaba en calma cuando los barcos volvieron con la marea.", "es"),
        ("Il porto era calmo quando le barche sono tornate con la marea.", "it"),
        ("O porto estava calmo quando os barcos voltaram com a maré.", "pt"),
        ("De haven was stil toen de boten met de vangst naar huis kwamen.", "nl"),
        ("港口很安静，渔船都回来了。", "zh"),
        ("船が港に戻ってきたとき、とても静かでした。", "ja"),
        ("배가 돌아왔을 때 항구는 조용했다.", "ko"),
        ("Гавань была тихой, когда вернулись лодки.", "ru"),
        ("我们用 PyTorch 和 vLLM 来测试这个模型。", "zh"),
        ("The character 山 is read as 'mountain' in this text.", "en"),
        ("```python\nthe = of + and_to\n```\nDas ist der Code, und er ist nicht lang.", "de"),
        ("12 + 30 = 42", None),
        ("", None),
    ],
)
def test_language(text: str, language: str | None) -> None:
    assert detect_language(text) == language


def test_contains_and_regex() -> None:
    checker = ContainsChecker(all_of=("def total(",), any_of=("sum(", "fsum("), none_of=("print(",))
    assert checker.check("def  total(\n  x): return sum(x)".replace("  x", "x")).passed
    assert not checker.check("def Total(x): return sum(x)").passed
    assert not checker.check("def total(x): return x").passed
    assert not checker.check("def total(x): print(sum(x))").passed
    assert ContainsChecker(any_of=("Blue Whale",), ignores_case=True).check("the blue\nwhale").passed
    assert RegexChecker(r"\bNo\b.*end").check("No\nend").passed
    assert not RegexChecker(r"^No$").check("None").passed


TESTS = "assert double(2) == 4\nassert double(-1) == -2\n"


def test_code_is_refused_without_permission() -> None:
    with pytest.raises(ForerunError, match="permission"):
        CodeChecker(TESTS, "double").check("def double(x): return 2 * x")


@pytest.mark.parametrize(
    ("output", "passed", "reason"),
    [
        ("Sure:\n```python\ndef double(x):\n    return 2 * x\n```\nDone.", True, "passed"),
        ("def double(x):\n    return x ** 2", False, "AssertionError"),
        ("def double(x) return", False, "SyntaxError"),
        ("import sys\nsys.exit(0)", False, "status 0"),
        ("def double(x):\n    while True: pass", False, ""),
        ("def double(x):\n    return [0] * 10**10", False, "MemoryError"),
        ("from __future__ import annotations\ndef double(x: int) -> int:\n    return x + x", True, "passed"),
        ("def double(x):\n    return 2 * x\nif __name__ == '__main__':\n    raise SystemExit(3)", True, "passed"),
    ],
)
def test_code(output: str, passed: bool, reason: str) -> None:
    result = CodeChecker(TESTS, "double", seconds=2, memory_mib=256).with_permission().check(output)
    assert result.passed is passed, result.reason
    assert reason in result.reason


def test_code_continues_the_given_prompt() -> None:
    given = 'import math\n\ndef area(r):\n    """Of a disc."""\n'
    checker = CodeChecker("assert area(1) == math.pi", "area", prompt_code=given).with_permission()
    assert checker.check("    return math.pi * r * r\n").passed
    assert checker.check("return math.pi * r * r\n").passed
    assert checker.check("```python\ndef area(r):\n    return math.pi * r ** 2\n```").passed
    assert not checker.check("    return r\n").passed


def test_extract_code_prefers_the_asked_function() -> None:
    output = "```python\nprint('a long example of how to use it')\n```\n```py\ndef f(): ...\n```"
    assert extract_code(output, "f") == "def f(): ...\n"
    assert extract_code("no fence") == "no fence"


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "answer", "expected": ""},
        {"kind": "guess", "expected": "1"},
        {"kind": "contains"},
        {"kind": "regex", "pattern": "("},
        {"kind": "language", "language": "xx"},
        {"kind": "json", "expected": {"a": 1}, "keys": ["a"]},
    ],
)
def test_wrong_specs_are_refused(spec: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(CheckerSpec).validate_python(spec)
