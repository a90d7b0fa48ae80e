"""The whole command with peers that need no processes: every part reaches the page."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.compare import main
from benchmarks.environments import Environment
from benchmarks.measure import Watch
from benchmarks.peers.base import Answer, Launch, ModelFiles, Setting, Tuning
from benchmarks.peers.forerun import ForerunServer
from benchmarks.report import read
from fake_peer import FakePeer, FakeServer, Machine, answer

from benchmarks import comparison
from forerun.errors import ForerunError

TEXT = tuple(range(20, 44))
ROOT = Path(__file__).parents[2]


class WordTokenizer:
    """One token a word, no chat template."""

    has_chat_template = False

    def encode(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]


class OwnServer(FakeServer, ForerunServer):
    """Answers at its natural length, too."""

    def natural_answer(self, prompt: Sequence[int], max_tokens: int) -> list[int]:
        # One prompt in three has an answer too short to measure anything.
        return list(TEXT[: 3 if sum(prompt) % 3 == 0 else 24])


class OwnPeer(FakePeer):
    def __init__(self) -> None:
        super().__init__("forerun", ("plain", "suffix"), own_answers)

    def start(self, setting: Setting, launch: Launch) -> OwnServer:
        return OwnServer(self, 0)

    def start_with(self, dtype: str, setting: Setting, launch: Launch) -> FakeServer:
        assert dtype == "float32"
        return FakeServer(self, 1)


def own_answers(asked: Setting, prompt: tuple[int, ...]) -> Answer:
    return answer(1.0 if asked.is_plain else 0.5, TEXT)


def their_answers(asked: Setting, prompt: tuple[int, ...]) -> Answer:
    seconds = 3.0 if asked.is_plain else 1.0
    return answer(seconds if asked.tuning == Tuning(1) else 2 * seconds, (*TEXT[:-1], 0))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    failing = FakePeer("transformers")
    failing.environment = Environment("transformers")
    theirs = FakePeer("llama.cpp", ("plain", "ngram"), their_answers, is_restarted=True, apart=True)
    theirs.tunable = (Tuning(2), Tuning(1))
    broken = FakePeer("vLLM", fails_to_start=True)

    def build(environment: Environment, report: object) -> None:
        raise ForerunError("an environment", "no network", "try again")

    replaced = {
        "ForerunPeer": lambda dtype: OwnPeer(),
        "LlamaCppPeer": lambda: theirs,
        "TransformersPeer": lambda: failing,
    }
    replaced |= {"VllmPeer": lambda is_eager: broken, "build": build, "tokenizer_of": lambda files: WordTokenizer()}
    replaced["resolve"] = lambda name: ModelFiles(name, None, tmp_path)
    for name, value in replaced.items():
        monkeypatch.setattr(comparison, name, value)
    machine = Machine()
    monkeypatch.setattr(comparison, "Watch", lambda limits: Watch(limits, machine, 0))
    paths = [
        "--runs",
        str(tmp_path / "runs"),
        "--results",
        str(tmp_path / "results"),
        "--page",
        str(tmp_path / "page.md"),
    ]
    return ["--target", "tiny", "--workloads", "code_edit,prose", "--positions", "3", *paths]


def test_every_option_stands_in_the_table_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    options = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    table = set(re.findall(r"^\| `(--[a-z-]+)` \|", (ROOT / "docs" / "benchmarks.md").read_text(), re.MULTILINE))
    assert options == table and len(table) > 15


def test_the_repositorys_page_is_left_alone_unless_named(
    run: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    published = [path for path in (ROOT / "benchmarks").rglob("*") if path.suffix in (".md", ".json")]
    before = {path: path.read_bytes() for path in published}
    words = run[: run.index("--runs")]
    assert main([*words, "--quick", "--num-measure", "6"]) == 0
    kept = tmp_path / "runs" / "benchmarks"
    assert (kept / "results" / "tiny-quick.json").is_file() and (kept / "tiny-quick" / "trials.jsonl").is_file()
    assert "--target tiny" in (kept / "RESULTS.md").read_text()
    assert len(before) >= 2 and {path: path.read_bytes() for path in published} == before


def test_a_run_from_prompts_to_the_page(run: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*run, "--quick", "--num-measure", "6"]) == 0
    found = read(tmp_path / "results" / "tiny-quick.json")
    assert found.is_quick and found.is_complete and not found.broken
    assert [(row.workload, row.what, row.end_to_end.median) for row in found.figures] == [
        (workload, what, ratio)
        for workload in ("code_edit", "prose")
        for what, ratio in (("plain / plain", 3.0), ("best / best", 2.0), ("best / best of any peer", 2.0))
    ]
    assert all(row.end_to_end.num_pairs == 6 and row.end_to_end.low is not None for row in found.figures)
    assert [row.reach for row in found.figures] == [None, None, 1.5, None, None, None]
    reasons = {entry.what: entry.reason for entry in found.not_run}
    assert "no network" in reasons["transformers"] and "install it" in reasons["vLLM plain (bf16)"]
    assert {entry.label for entry in found.divergences} == {"forerun plain (bf16)", "llama.cpp plain (bf16; 1 thread)"}
    assert {row.num_same_texts for row in found.rows if row.label.startswith("llama.cpp")} == {0}
    # The peer ran with one thread, with which it is twice as fast.
    assert [(row.label, row.is_chosen) for row in found.tunings] == [
        ("llama.cpp plain (bf16; 2 threads)", False),
        ("llama.cpp plain (bf16; 1 thread)", True),
    ]
    page = (tmp_path / "page.md").read_text()
    assert "python -m benchmarks.compare --target tiny" in page and page.strip() == capsys.readouterr().out.strip()
    lines = (tmp_path / "runs" / "tiny-quick" / "trials.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["answer"]["token_ids"][:3] == [20, 21, 22]


@pytest.mark.parametrize(("at", "status"), [(30, 0), (3, 1)])
def test_a_stopped_run_writes_what_it_has(
    run: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    at: int,
    status: int,
) -> None:
    num_asked = 0

    def answers(asked: Setting, prompt: tuple[int, ...]) -> Answer:
        nonlocal num_asked
        num_asked += 1
        if num_asked == at:
            signal.raise_signal(signal.SIGTERM)
        return their_answers(asked, prompt)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    peer = FakePeer("llama.cpp", ("plain", "ngram"), answers, tunable=(Tuning(1),))
    monkeypatch.setattr(comparison, "LlamaCppPeer", lambda: peer)
    try:
        assert main([*run, "--quick", "--num-choose", "2", "--num-measure", "20"]) == status
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "stopped" in capsys.readouterr().err
    kept = tmp_path / "results" / "tiny-quick.json"
    if status:
        assert not kept.exists()  # nothing was compared: an earlier report is worth more
        return
    found = read(kept)
    assert not found.is_complete and found.rows and not found.divergences
    assert [row.end_to_end.median for row in found.figures[:1]] == [3.0]


def test_a_resumed_run_measures_only_what_is_missing(run: list[str], tmp_path: Path) -> None:
    assert main([*run, "--num-choose", "2", "--num-measure", "2"]) == 0
    trials = tmp_path / "runs" / "tiny" / "trials.jsonl"
    whole = trials.read_text()
    first = read(tmp_path / "results" / "tiny.json")
    assert main([*run, "--num-choose", "2", "--num-measure", "2", "--resume"]) == 0
    assert trials.read_text() == whole
    again = read(tmp_path / "results" / "tiny.json")
    assert (again.figures, again.rows, again.tunings) == (first.figures, first.rows, first.tunings)
    # Cut off within a round: that round and all later ones are measured, and nothing before.
    lines = whole.splitlines()
    trials.write_text("\n".join(lines[:-3]) + "\n")
    assert main([*run, "--num-choose", "2", "--num-measure", "2", "--resume"]) == 0
    found = trials.read_text().splitlines()
    assert found[: len(lines) - 3] == lines[:-3] and len(lines) <= len(found) < len(lines) + 8
    assert read(tmp_path / "results" / "tiny.json").figures == first.figures
    trials.write_text("{}\n")
    assert main([*run, "--resume"]) == 2


def test_a_text_that_drafting_changes_is_reported(
    run: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(asked: Setting, prompt: tuple[int, ...]) -> Answer:
        return answer(1.0, TEXT if asked.is_plain else (*TEXT[:-1], 1))

    monkeypatch.setitem(globals(), "own_answers", answers)
    assert main([*run, "--num-choose", "1", "--num-measure", "1"]) == 0
    assert read(tmp_path / "results" / "tiny.json").broken == ["forerun suffix (bf16)"]


def test_what_cannot_be_run_at_all_is_one_line(
    run: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["compare.py"])
    assert main([*run, "--peers", "nobody"]) == 2
    assert main([*run, "--workloads", "nothing"]) == 2
    assert main([*run, "--num-choose", "0"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("benchmarks.compare: expected")]
    assert ["'nobody'" in errors[0], "'nothing'" in errors[1], "num_choose" in errors[2]] == [True] * 3
