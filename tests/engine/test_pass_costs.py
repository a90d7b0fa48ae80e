"""What passes cost: measured by a clock from outside, read between the points, kept and found again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from torch import Tensor

from forerun.conditions import Artifact
from forerun.engine.costs.cost_cache import (
    find_or_measure_pass_costs,
    find_pass_costs,
    read_pass_costs,
    write_pass_costs,
)
from forerun.engine.costs.cost_point import CostPoint
from forerun.engine.costs.measure_passes import BATCH_SIZE, PASS_ROWS, SLICE_ROWS, measure_passes
from forerun.engine.costs.pass_curve import PassCurve
from forerun.engine.costs.pass_probe import PassProbe
from forerun.errors import ForerunError
from forerun.models.base import PassInput, PassOutput
from forerun.models.kv_store import KVStore
from forerun.models.loading.loaded_target import LoadedTarget
from support.pass_costs import IDENTITY
from support.tiny_decoder import tiny_decoder
from support.toy_target import ToyTarget
from support.word_tokenizer import word_tokenizer

VOCAB = 13


class ClockedToy(ToyTarget):
    """Each pass moves a clock forward: a millisecond a logit row, a tenth of it any other, some by its context."""

    def __init__(self, **fields: bool) -> None:
        super().__init__(VOCAB, max_context=2048, **fields)
        self.now = 0.0
        self.shapes: list[tuple[int, int, int]] = []

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset = frozenset()) -> PassOutput:
        rows, logits = len(batch.tokens), len(batch.logit_rows)
        self.shapes.append((rows, logits, len(set(batch.owners))))
        self.now += 1e-3 * logits + 1e-4 * (rows - logits) + sum(1e-6 * len(group.slots) for group in batch.groups)
        return super().forward(batch, store, taps)


def loaded_toy() -> LoadedTarget:
    return LoadedTarget(ClockedToy(), word_tokenizer(VOCAB), Artifact("toy", "r", "sha256:0", "none"))


def test_a_curve_gives_measured_points_back_and_the_line_between_them() -> None:
    curve = PassCurve([CostPoint(1, 1, 100, 1.0), CostPoint(9, 1, 100, 5.0), CostPoint(8, 8, 100, 4.0)])
    assert curve.seconds(1, 1, 100) == 1.0
    assert curve.seconds(5, 1, 100) == 3.0
    assert curve.seconds(18, 1, 100) == 10.0, "in proportion beyond the last row"
    assert curve.seconds(8, 8, 5000) == 4.0, "one context says nothing of others"
    assert curve.rows == (1, 8, 9)


def test_longer_contexts_add_by_sequence_and_token() -> None:
    near, far = CostPoint(8, 1, 100, 2.0), CostPoint(8, 1, 300, 4.0)
    curve = PassCurve([near, far, CostPoint(64, 8, 100, 3.0)])
    assert curve.seconds(8, 1, 300) == pytest.approx(4.0)
    assert curve.seconds(8, 1, 500) == pytest.approx(6.0)
    assert curve.seconds(64, 8, 200) == pytest.approx(3.0 + 8 * 1.0)
    assert curve.seconds(8, 1, 20) == pytest.approx(2.0)


def test_a_curve_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        PassCurve([])


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_a_slice_wants_one_row_of_logits_and_leaves_no_trace(is_recurrent: bool) -> None:
    target = ClockedToy(is_recurrent=is_recurrent)
    probe = PassProbe(target)
    for _ in range(2):
        probe.run_slice(40, 100)
        assert target.shapes[-1] == (40, 1, 1)
        assert target.last_batch.positions.tolist() == list(range(100, 140))
        assert target.last_batch.num_committed == {1: 40}
        probe.run_pass(16, 1, 100)
        assert target.shapes[-1] == (16, 16, 1)
    num_passes = len(target.shapes)
    probe.run_slice(64, 100)
    assert len(target.shapes) == num_passes + 1, "the bed is kept"


class _Awaited(Tensor):
    """Logits on a device, as it were: the host has waited for the pass once it has asked for them."""

    num_asked = 0

    def cpu(self) -> Tensor:  # type: ignore[override]
        type(self).num_asked += 1
        return self.as_subclass(Tensor)


class DistantToy(ClockedToy):
    """A target whose logits have to be fetched."""

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset = frozenset()) -> PassOutput:
        output = super().forward(batch, store, taps)
        return replace(output, logits=output.logits.as_subclass(_Awaited))


def test_a_timed_pass_has_ended_on_the_device() -> None:
    probe = PassProbe(DistantToy())
    probe.run_pass(8, 1, 64)
    probe.run_slice(40, 64)
    _Awaited.num_asked = 0
    probe.run_pass(8, 1, 64)
    assert _Awaited.num_asked == 1
    probe.run_slice(40, 64)
    assert _Awaited.num_asked == 2


def test_measuring_times_what_the_engine_does() -> None:
    target = ClockedToy()
    costs = measure_passes(target, IDENTITY, clock=lambda: target.now)
    rows = {point.rows for point in costs.passes if point.sequences == 1}
    assert rows == set(PASS_ROWS)
    assert {point.sequences for point in costs.passes} == {1, BATCH_SIZE}
    assert {point.rows for point in costs.slices} == set(SLICE_ROWS)
    for point in costs.passes:
        attention = point.sequences * (point.context + point.rows // point.sequences) * 1e-6
        assert point.seconds == pytest.approx(1e-3 * point.rows + attention)
    for point in costs.slices:
        assert point.seconds == pytest.approx(1e-3 + 1e-4 * (point.rows - 1) + (point.context + point.rows) * 1e-6)


def test_what_takes_too_long_ends_its_series() -> None:
    target = ClockedToy()
    costs = measure_passes(target, IDENTITY, clock=lambda: 40 * target.now, num_repeats=1)
    slices = [point.rows for point in costs.slices if point.context == 128]
    assert slices == [16, 32, 64, 96, 128, 192, 256], "40 x 25 ms is the first above a second"
    assert max(point.rows for point in costs.passes if point.sequences == 1) == 32


def test_a_model_whose_smallest_pass_is_slow_has_a_curve_too() -> None:
    target = ClockedToy()
    costs = measure_passes(target, IDENTITY, clock=lambda: 2000 * target.now, num_repeats=1)
    rows = [point.rows for point in costs.passes if (point.sequences, point.context) == (1, 128)]
    assert rows == [1, 2, 4, 8], "up to more than four times the time of one row"


def test_the_fastest_try_counts() -> None:
    target = ClockedToy()
    reads = itertools.count()

    def clock() -> float:
        # Every third try is slowed down by something else (two reads are a try): each point once or twice.
        target.now += 0.5 * (next(reads) % 6 == 1)
        return target.now

    costs = measure_passes(target, IDENTITY, clock=clock, num_repeats=3)
    for point in costs.passes:
        attention = point.sequences * (point.context + point.rows // point.sequences) * 1e-6
        assert point.seconds == pytest.approx(1e-3 * point.rows + attention)


def test_a_short_context_is_kept_to() -> None:
    target = tiny_decoder(3)
    costs = measure_passes(target, IDENTITY, num_repeats=1)
    room = target.traits.max_context
    assert all(point.context + point.rows <= room for point in costs.slices)


def test_costs_are_kept_for_exactly_this_target(tmp_path: Path) -> None:
    loaded = loaded_toy()
    assert find_pass_costs(loaded, directory=tmp_path) is None
    measured = find_or_measure_pass_costs(loaded, directory=tmp_path)
    num_passes = len(loaded.target.shapes)
    assert (
        find_or_measure_pass_costs(loaded, directory=tmp_path)
        == measured
        == find_pass_costs(loaded, directory=tmp_path)
    )
    assert len(loaded.target.shapes) == num_passes, "nothing is measured twice"
    other = LoadedTarget(loaded.target, loaded.tokenizer, replace(loaded.artifact, hash="sha256:1"))
    assert find_pass_costs(other, directory=tmp_path) is None
    (file,) = tmp_path.iterdir()
    assert read_pass_costs(file) == measured


def test_old_costs_are_measured_again_and_another_identity_is_not_believed(tmp_path: Path) -> None:
    loaded = loaded_toy()
    costs = find_or_measure_pass_costs(loaded, directory=tmp_path)
    (file,) = tmp_path.iterdir()
    old = (datetime.now(UTC) - timedelta(days=31)).isoformat(timespec="seconds")
    write_pass_costs(replace(costs, measured_at=old), file)
    assert find_pass_costs(loaded, directory=tmp_path) is None
    assert find_or_measure_pass_costs(loaded, directory=tmp_path).measured_at != old
    write_pass_costs(replace(costs, identity=replace(costs.identity, threads=99)), file)
    assert find_pass_costs(loaded, directory=tmp_path) is None


def test_a_damaged_file_and_a_directory_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    loaded = loaded_toy()
    find_or_measure_pass_costs(loaded, directory=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text("{")
    with pytest.raises(ForerunError, match="remove the file"):
        find_pass_costs(loaded, directory=tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ForerunError, match="to write"):
        find_or_measure_pass_costs(loaded, directory=blocked / "costs")
