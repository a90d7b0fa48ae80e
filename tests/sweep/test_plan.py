"""Plans: defaults, files, flags, one-line refusals, and the cells they come to."""

import re
from pathlib import Path

import pytest

from forerun.errors import ForerunError
from forerun.sweep.cells import Candidate, CellState
from forerun.sweep.expand import expand
from forerun.sweep.plan import DrafterPlan, MethodPlan, Plan, read_plan

WORKLOADS = ("code", "repeat")


def plan_of(tmp_path, text, **flags):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return read_plan(path, flags)


def test_every_key_is_documented_and_no_other():
    text = (Path(__file__).parents[2] / "docs" / "tune.md").read_text(encoding="utf-8")
    keys = text.partition("All keys:")[2].partition("\n\n")[0]
    known = {*Plan.model_fields, *MethodPlan.model_fields, *DrafterPlan.model_fields}
    assert set(re.findall(r"`(\w+)`", keys)) == known


def test_a_plan_needs_nothing():
    plan = read_plan()
    assert plan.targets == ("smollm2-135m",)
    assert (plan.min_pairs, plan.max_pairs, plan.max_half_width) == (6, 30, 0.05)
    assert plan.methods is None


def test_a_file_and_flags_over_it(tmp_path):
    text = """
    targets = ["a", "b"]
    methods = ["ngram", {name = "suffix", n = [3], is_tree = true, knobs = {max_depth = 32}}]
    temperatures = [0, 0.8]
    [[drafters]]
    method = "draft_model"
    artifact = "small"
    target = "a"
    """
    plan = plan_of(tmp_path, text, max_tokens=64, quick=None)
    assert plan.max_tokens == 64
    assert plan.quick is False
    assert [method.name for method in plan.methods] == ["ngram", "suffix"]
    assert plan.methods[1].knobs == {"max_depth": 32}
    assert plan.drafters[0].target == "a"


def test_a_plan_names_the_number_type_of_keys_and_a_flag_stands_over_it(tmp_path):
    assert read_plan().kv_dtype == "auto"
    assert plan_of(tmp_path, "kv_dtype = 'bf16'").kv_dtype == "bfloat16"
    assert plan_of(tmp_path, "kv_dtype = 'bf16'", kv_dtype="int8").kv_dtype == "int8"
    assert plan_of(tmp_path, "", kv_dtype="int8").hash != read_plan().hash


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tragets = ['a']", r"unknown key tragets; .*remove"),
        ("methods = [{name = 'ngram', N = 3}]", r"among name, n, is_tree, knobs; found unknown key methods\.0\.N"),
        ("n = [0]", r"n\.0.*found 0; input should be greater than or equal to 1"),
        ("methods = [{name = 'ngram', n = [3, 0]}]", r"methods\.0\.n\.1.*found 0"),
        ("n = [3, 3]", "each value once"),
        ("temperatures = [-1.0]", r"temperatures\.0.*-1\.0"),
        ("temperatures = [nan]", "temperatures"),
        ("concurrency = []", "concurrency"),
        ("kv_dtype = 'int4'", r"kv_dtype.*found 'int4'"),
        ("kv_dtype = 8", r"kv_dtype.*found 8"),
        ("max_tokens = 'many'", "max_tokens.*'many'"),
        ("min_pairs = 5", "min_pairs.*found 5"),
        ("min_pairs = 20\nmax_pairs = 10", r"max_pairs \(10\) must be at least"),
        ("methods = []", "at least one"),
        ("seeds = [-1]", "seeds"),
        ("workloads = ['']", "workloads"),
        ("[[drafters]]\nmethod = 'draft_model'\nartifact = 'x'\ntarget = 'elsewhere'", "not among the targets"),
        ("targets = [", "TOML in"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, named):
    with pytest.raises(ForerunError, match=named) as error:
        plan_of(tmp_path, text)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ForerunError, match="No such file"):
        read_plan(tmp_path / "none.toml")


def test_equal_work_has_an_equal_hash():
    assert Plan().hash == Plan(time_budget=10.0).hash
    assert Plan().hash != Plan(max_tokens=64).hash
    assert Plan(methods=["ngram"]).hash == read_plan(flags={"methods": ("ngram",)}).hash


def test_cells_are_every_candidate_in_every_setting_with_off_as_the_other_side():
    plan = Plan(methods=["ngram", {"name": "suffix", "n": [3], "is_tree": True}, "off"], temperatures=(0.0, 0.8))
    cells, gaps = expand(plan, WORKLOADS)
    assert len(cells) == 2 * 2 * 5
    assert gaps == []
    assert len(set(cells)) == len(cells)
    assert [cell.candidate for cell in cells[:5]] == [
        *(Candidate("ngram", n) for n in (1, 3, 7, 15)),
        Candidate("suffix", 3, is_tree=True),
    ]
    assert {cell.setting for cell in cells[:5]} == {cells[0].setting}
    assert not any(cell.candidate.is_off for cell in cells)


def test_a_method_without_a_drafter_for_a_target_is_a_gap():
    plan = Plan(
        targets=("big", "small"),
        methods=["draft_model"],
        n=(2,),
        drafters=({"method": "draft_model", "artifact": "tiny", "target": "big"},),
    )
    cells, gaps = expand(plan, ("code",))
    assert [(cell.target, cell.candidate) for cell in cells] == [("big", Candidate("draft_model", 2, drafter="tiny"))]
    assert [(gap.what, gap.state) for gap in gaps] == [("draft_model for small", CellState.UNSUPPORTED)]
    assert gaps[0].reason == "no candidate for this target"


def test_all_methods_are_tried_by_default():
    cells, gaps = expand(Plan(), ("code",))
    assert {cell.candidate.method for cell in cells} >= {"ngram", "suffix"}
    assert "draft_model for smollm2-135m" in [gap.what for gap in gaps]


@pytest.mark.parametrize(
    ("methods", "named"),
    [
        ([{"name": "ngram", "n": [9999]}], "N = 9999"),
        (["telepathy"], "telepathy"),
        ([{"name": "ngram", "is_tree": True}], "grows trees"),
    ],
)
def test_what_a_method_cannot_do_is_refused(methods, named):
    with pytest.raises(ForerunError, match=named):
        expand(Plan(methods=methods), ("code",))
