"""Conditions: every field present, read back, and comparisons that refuse."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from forerun.conditions import (
    UNDISCLOSED,
    Artifact,
    Conditions,
    differences,
    of_machine,
    require_comparable,
    sorted_flags,
)
from forerun.errors import ForerunError

FULL = Conditions(
    target=Artifact("smollm2-135m", "0.1.2", "b179", "Q4_1"),
    flags=sorted_flags([("tile", 16), ("block", 64)]),
    num_speculative_tokens=7,
    device_count=1,
    load=0.25,
)


def test_everything_nobody_wrote_down_is_undisclosed():
    assert set(dict(Conditions().items()).values()) == {UNDISCLOSED}
    assert Conditions().undisclosed_fields() == list(Conditions.field_names())
    assert "target.id" not in FULL.undisclosed_fields()


def test_json_holds_every_field_and_reads_back():
    assert Conditions.from_json(FULL.to_json()) == FULL
    assert Conditions.from_json(Conditions().to_json()) == Conditions()
    assert FULL.flags == (("block", "64"), ("tile", "16"))
    assert set(json.loads(FULL.to_json())) == {name.split(".")[0] for name in Conditions.field_names()}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda data: data.pop("kv_dtype"), "without kv_dtype"),
        (lambda data: data.update(mood="good"), "with mood"),
        (lambda data: data["target"].pop("hash"), "without hash"),
        (lambda data: data.update(target="smollm2"), "without hash"),
        (lambda data: data.update(threads="many"), "threads"),
    ],
)
def test_a_missing_unknown_or_wrong_field_is_refused(change, named):
    data = json.loads(FULL.to_json())
    change(data)
    with pytest.raises(ForerunError, match=named):
        Conditions.from_json(json.dumps(data))


def test_not_json_is_refused():
    with pytest.raises(ForerunError, match="not JSON"):
        Conditions.from_json("{")
    with pytest.raises(ForerunError, match="list"):
        Conditions.from_json("[]")


def test_a_comparison_lists_what_differs_and_refuses_what_was_not_varied():
    other = replace(FULL, num_speculative_tokens=3, kv_dtype="bf16", load=3.0)
    found = differences(FULL, other, axes=["num_speculative_tokens"])
    assert {difference.field: difference.is_allowed for difference in found} == {
        "num_speculative_tokens": True,
        "kv_dtype": False,
        "load": True,
    }
    with pytest.raises(ForerunError, match="kv_dtype: undisclosed against bf16") as error:
        require_comparable(FULL, other, axes=["num_speculative_tokens"])
    assert "load" not in error.value.found
    assert len(require_comparable(FULL, other, axes=["num_speculative_tokens", "kv_dtype"])) == 3


def test_an_axis_may_name_a_whole_artifact_or_one_part():
    other = replace(FULL, target=replace(FULL.target, quantisation="bf16", hash="c0"))
    require_comparable(FULL, other, axes=["target"])
    with pytest.raises(ForerunError, match=r"target\.hash") as error:
        require_comparable(FULL, other, axes=["target.quantisation"])
    assert "quantisation" not in error.value.found


def test_an_axis_that_is_no_field_is_refused():
    with pytest.raises(ForerunError, match="'weather'"):
        differences(FULL, FULL, axes=["weather"])


def test_the_machine_fills_what_it_knows_and_no_more():
    found = of_machine(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert found.started_at == "2026-01-02T03:04:05+00:00"
    assert found.torch.startswith("2.")
    assert isinstance(found.threads, int)
    assert found.target == Artifact()
    assert found.device == UNDISCLOSED
    assert found.ended(datetime(2026, 1, 2, tzinfo=UTC)).ended_at == "2026-01-02T00:00:00+00:00"
