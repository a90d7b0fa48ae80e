"""The load guard on made-up samples, and once on this machine."""

import inspect
import time

from forerun.sweep.load_guard import LoadLimits, LoadSample, LoadWatch, between, read_machine
from forerun.sweep.measurements import LoadReading


def sample(at, busy, own, switches=0):
    return LoadSample(at, 0.5, busy, own, switches, 2)


def test_a_reading_is_what_others_took():
    found = between(sample(10.0, 100.0, 5.0, 7), sample(12.0, 103.0, 7.0, 27))
    assert found == LoadReading(2.0, 0.5, 1.0, 20, 2)
    assert found.foreign_share == 0.25
    assert between(sample(0.0, 10.0, 5.0), sample(1.0, 10.99, 6.0)).foreign_cpu_seconds == 0.0
    assert LoadReading(0.0, 0.0, 0.0, 0, 2).foreign_share == 0.0


def test_a_busy_neighbour_and_lost_cores_spoil_a_pair():
    quiet = LoadReading(2.0, 0.5, 0.1, 10, 2)
    assert LoadLimits().spoiled_by(quiet, quiet) == ""
    assert "25%" in LoadLimits().spoiled_by(quiet, LoadReading(2.0, 0.5, 1.0, 10, 2))
    assert "100 times a second" in LoadLimits().spoiled_by(LoadReading(2.0, 0.5, 0.0, 400, 2), quiet)
    assert LoadLimits(foreign_share=0.5).spoiled_by(LoadReading(2.0, 0.5, 1.0, 10, 2)) == ""


def test_no_ratio_can_reach_the_decision():
    # The rule reads load readings alone: there is nothing in its reach that tells fast from slow.
    assert list(inspect.signature(LoadLimits.spoiled_by).parameters) == ["self", "readings"]
    assert not {"ratio", "throughput", "num_tokens"} & set(dir(LoadReading(1.0, 0.0, 0.0, 0, 1)))


def test_a_watch_reads_before_and_after():
    samples = iter([sample(1.0, 10.0, 1.0), sample(3.0, 13.0, 2.0)])
    with LoadWatch(lambda: next(samples)) as watch:
        pass
    assert watch.reading.foreign_share == 0.5


def test_the_real_machine_does_not_count_our_own_work_as_foreign():
    before = read_machine()
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        pass
    after = read_machine()
    assert after.own_cpu_seconds > before.own_cpu_seconds
    assert after.num_cpus >= 1
    found = between(before, after)
    assert found.seconds >= 0.3
    assert 0.0 <= found.foreign_cpu_seconds <= (after.busy_cpu_seconds - before.busy_cpu_seconds)
