"""Policies: from verdicts, to disk, back, and checked."""

import json
from dataclasses import replace

import pytest

from forerun.conditions import Artifact, Conditions
from forerun.errors import ForerunError
from forerun.sweep.cells import OFF, Candidate, Cell, CellState, Setting
from forerun.sweep.policy import Policy, read_policy, write_policy
from forerun.sweep.results import CellResult, Interval, TuneResult, WorkloadVerdict

CODE = Setting("smollm2", "code", 0.0, 1)
INTERVAL = Interval(1.5, 1.4, 1.6, 8, 0.97)
PICK = Candidate("suffix", 3, True, (("max_depth", 32),))
CELL_CONDITIONS = Conditions(method="suffix", num_speculative_tokens=3)


def tune():
    verdicts = (
        WorkloadVerdict(CODE, PICK, INTERVAL, False, ("faster",)),
        WorkloadVerdict(replace(CODE, concurrency=8), OFF, None, True, ("tie",)),
    )
    cells = (
        CellResult(Cell.of(CODE, PICK), CellState.MEASURED, interval=INTERVAL, num_pairs=8, conditions=CELL_CONDITIONS),
    )
    shared = Conditions(target=Artifact("smollm2"))
    return TuneResult("r1", "h", "{}", True, shared, cells, (), verdicts, (), (), (), (), (), (), 1)


def test_a_policy_reads_back(tmp_path):
    policy = Policy.of(tune())
    write_policy(tmp_path / "policy.json", policy)
    assert read_policy(tmp_path / "policy.json") == policy
    rule = policy.rule_for("code", 1)
    assert rule.candidate == PICK
    assert (rule.expected_ratio, rule.interval.low, rule.interval.num_pairs) == (1.5, 1.4, 8)
    assert rule.conditions == CELL_CONDITIONS
    assert policy.rules[1].conditions.target.id == "smollm2"


def test_the_nearest_concurrency_rules():
    policy = Policy.of(tune())
    assert policy.rule_for("code", 3).candidate == PICK
    assert policy.rule_for("code", 30).candidate == OFF
    assert policy.rule_for("prose", 1) is None
    assert policy.rule_for("code", 1, target="another") is None


def damaged(change):
    data = json.loads(Policy.of(tune()).model_dump_json())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "JSON in"),
        ("[]", "forerun policy"),
        (damaged(lambda data: data.update(version=2)), "version"),
        (damaged(lambda data: data.update(mood=1)), "mood"),
        (damaged(lambda data: data["rules"][0].update(num_speculative_tokens=0)), "N = 0"),
        (damaged(lambda data: data["rules"][0].update(expected_ratio=None)), "must come with"),
        (damaged(lambda data: data["rules"][1].update(expected_ratio=1.0)), "must not come with"),
        (damaged(lambda data: data["rules"].append(data["rules"][0])), "two rules"),
        (damaged(lambda data: data["rules"][0]["conditions"].pop("kv_dtype")), "without kv_dtype"),
    ],
)
def test_a_policy_that_is_none_is_refused(tmp_path, text, named):
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(ForerunError, match=named):
        read_policy(tmp_path / "policy.json")


def test_a_missing_policy_says_what_to_do(tmp_path):
    with pytest.raises(ForerunError, match="run forerun tune first"):
        read_policy(tmp_path / "policy.json")
