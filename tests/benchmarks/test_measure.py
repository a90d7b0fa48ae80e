"""Turns, repetitions and budgets: who is asked what, and what counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.measure import Budget, Measurement, Watch
from benchmarks.peers.base import Answer, Setting
from benchmarks.record import Record
from benchmarks.servers import Servers
from fake_peer import LAUNCH, PROMPTS, FakePeer, Machine, answer, setting

from forerun.errors import ForerunError
from forerun.sweep.load_guard import LoadLimits

WARM_UP = (9, 9)
A, B = setting("a"), setting("b")


def measured(peers: list[FakePeer], settings: list[Setting], machine: Machine | None = None) -> Measurement:
    with Servers({peer.name: peer for peer in peers}, LAUNCH, WARM_UP) as servers:
        watch = Watch(LoadLimits(), machine or Machine(), settle_seconds=0)
        measurement = Measurement(servers, watch, 0, Record(Path(os.devnull)), lambda line: None)
        measurement.run("choose", settings, PROMPTS, Budget(60, [1]))
        measurement.not_run = servers.not_run  # type: ignore[attr-defined]
    return measurement


def test_all_settings_on_a_prompt_before_the_next_in_changing_order() -> None:
    trials = measured([FakePeer("a"), FakePeer("b")], [A, B]).trials
    assert [trial.prompt_id for trial in trials] == [id for p in PROMPTS for id in (p.id, p.id)]
    assert all({first.setting, second.setting} == {A, B} for first, second in zip(trials[::2], trials[1::2]))
    assert {trial.setting for trial in trials[::2]} == {A, B}  # neither always goes first
    assert [trial.round for trial in trials] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_spoiled_answer_is_repeated_and_in_the_end_dropped() -> None:
    trials = measured([FakePeer("a")], [A], Machine([0.5, 0.0, 0.5, 0.5, 0.5])).trials
    assert [trial.is_kept for trial in trials] == [False, True, False, False, False, True, True]
    assert [trial.prompt_id for trial in trials] == ["p0", "p0", "p1", "p1", "p1", "p2", "p3"]
    assert "50% of the CPUs" in trials[0].spoiled


def test_a_fresh_server_for_every_answer_where_drafters_remember() -> None:
    peer = FakePeer("a", is_restarted=True)
    measured([peer], [A], Machine([0.5]))
    # One spoiled, four kept: five servers, each asked a warm-up and one prompt.
    assert len(peer.started) == 5 and all(server.is_stopped for server in peer.started)
    assert [asked[0] for asked in peer.asked] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert all(asked[2] == WARM_UP for asked in peer.asked[::2])


def test_a_server_that_stays_is_warmed_up_once_for_each_setting() -> None:
    peer = FakePeer("a", ("plain", "ngram"))
    measured([peer], [setting("a"), setting("a", "ngram")])
    assert len(peer.started) == 1
    assert [asked[2] for asked in peer.asked].count(WARM_UP) == 2


def test_nobody_else_is_awake_while_one_answers() -> None:
    peers = [FakePeer("a"), FakePeer("b")]

    def answers(asked: Setting, prompt: tuple[int, ...]) -> Answer:
        awake = [server.peer.name for peer in peers for server in peer.started if server.is_awake]
        if prompt != WARM_UP:
            assert awake == [asked.peer]
        return answer(1.0)

    for peer in peers:
        peer.answers = answers
    assert len(measured(peers, [A, B]).trials) == 2 * len(PROMPTS)


def test_what_fails_is_named_and_the_others_go_on() -> None:
    def answers(asked: Setting, prompt: tuple[int, ...]) -> Answer:
        if asked.method == "ngram" and prompt == PROMPTS[1].token_ids:
            raise ForerunError("an answer", "a crash", "see the log")
        return answer(1.0)

    peer, other = FakePeer("a", ("plain", "ngram"), answers), FakePeer("b", fails_to_start=True)
    ngram = setting("a", "ngram")
    measurement = measured([peer, other], [A, ngram, B])
    assert measurement.not_run.keys() == {ngram, B}  # type: ignore[attr-defined]
    assert "a crash" in measurement.not_run[ngram].reason  # type: ignore[attr-defined]
    assert [trial.setting for trial in measurement.trials].count(A) == 4
    assert [trial.setting for trial in measurement.trials].count(ngram) == 1


def test_no_further_prompt_once_the_time_is_up_but_the_first_one_always() -> None:
    with Servers({"a": FakePeer("a")}, LAUNCH, WARM_UP) as servers:
        measurement = Measurement(
            servers, Watch(LoadLimits(), Machine(), settle_seconds=0), 0, Record(Path(os.devnull)), lambda line: None
        )
        assert not measurement.run("choose", [A], PROMPTS, Budget(0, [1]))
        assert [trial.prompt_id for trial in measurement.trials] == ["p0"]


def test_what_a_part_leaves_over_goes_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.measure.time.monotonic", lambda: clock[0])
    budget = Budget(90, [1, 1, 1])
    with budget.part() as ends_at:
        assert ends_at == 30
        clock[0] = 10
    with budget.part() as ends_at:
        assert ends_at == 10 + 40
        clock[0] = 60
    assert budget.seconds_left == 30
    with budget.part() as ends_at:
        assert ends_at == 90


def test_a_part_with_more_settings_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.measure.time.monotonic", lambda: 0.0)
    budget = Budget(60, [4, 1, 1])
    for share in (40, 30, 60):
        with budget.part() as ends_at:
            assert ends_at == share


def test_servers_stay_up_as_long_as_memory_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Memory:
        available = 12

    monkeypatch.setattr("benchmarks.servers.psutil.virtual_memory", Memory)
    peers = {name: FakePeer(name, num_bytes=4) for name in ("a", "b", "c")}
    with Servers(peers, LAUNCH, WARM_UP) as servers:
        for name in ("a", "b", "a", "c", "a"):
            servers.start([setting(name)])
        # Two fit: b was in the way of c, a came back and found c's place beside it.
        assert {name: len(peer.started) for name, peer in peers.items()} == {"a": 2, "b": 1, "c": 1}
        assert [peers[name].started[-1].is_stopped for name in ("a", "b", "c")] == [False, True, False]


def test_waves_hold_ours_and_as_many_others_as_memory_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Memory:
        available = 10

    monkeypatch.setattr("benchmarks.servers.psutil.virtual_memory", Memory)
    methods = ("plain", "x", "y")
    peers = {"a": FakePeer("a", num_bytes=2), "b": FakePeer("b", methods, apart=True, num_bytes=3)}
    peers["c"] = FakePeer("c", methods, apart=True, is_restarted=True, num_bytes=3)
    servers = Servers(peers, LAUNCH, WARM_UP)
    of_b = [setting("b", method) for method in methods]
    of_c = [setting("c", method) for method in methods]
    assert servers.waves([A], of_b) == [[A, *of_b[:2]], [A, of_b[2]]]
    assert servers.waves([A], of_c) == [[A, *of_c]]  # they take turns, and one at a time fits
    assert servers.waves([A], []) == [[A]]
    Memory.available = 1  # too little for anything: one server at a time beside ours, with all of its settings
    assert servers.waves([A], of_b[:2]) == [[A, of_b[0]], [A, of_b[1]]]
    peers["b"].apart = False
    assert servers.waves([A], of_b) == [[A, *of_b]]
