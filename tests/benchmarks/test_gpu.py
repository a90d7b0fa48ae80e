"""The script for a GPU, rehearsed on the CPU: it ends, it says what it found, and its checks can fail."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from benchmarks.device import checks, times
from benchmarks.device.models import RandomModel, tiny_models
from benchmarks.device.row import Row
from benchmarks.gpu import Bench, Section, record_of, run

from benchmarks import gpu
from forerun.models.arithmetic.arithmetic import EXACT, INEXACT, Arithmetic
from forerun.models.decoder import Decoder
from forerun.models.recording.clock import device_clock
from support.tape import TapeRecorder

CPU = torch.device("cpu")


class Bent(RandomModel):
    """Has other weights wherever its number type isn't fp32."""

    def on(self, device: torch.device, dtype: torch.dtype, arithmetic: Arithmetic) -> Decoder:
        decoder = super().on(device, dtype, arithmetic)
        if dtype is not torch.float32:
            decoder.final_norm.weight.data.neg_()
        return decoder


class Scripted(Bench):
    """Sections of our own."""

    def sections(self) -> Iterator[tuple[str, Section, float]]:
        def broken() -> Iterator[Row]:
            yield Row("broken", "before", "")
            raise RuntimeError("the driver said no\nand more")

        yield "broken", broken, 0
        yield "long", lambda: iter([Row("long", "never", "")]), 1e9
        yield "sound", lambda: iter([Row("sound", "after", "", passed=True)]), 0


def a_bench(model: RandomModel, dtype: torch.dtype = torch.float32) -> Bench:
    return Bench(CPU, dtype, model, tiny_models()[0], num_tokens=40, contexts=(16,))


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is a device here")
def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    assert "expected a CUDA, ROCm or MPS device; found only a CPU" in capsys.readouterr().err


def test_a_rehearsal_runs_every_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "NUM_REPEATS", 1)
    bench = a_bench(tiny_models()[0], torch.bfloat16)
    records: list[dict[str, object]] = []
    rows = run(bench, 600, lambda rows, missing: records.append(record_of(bench, rows, missing)))
    assert {row.section for row in rows} == {
        "parity", "same text", "rows' independence", "C", "prefill", "head", "D",
    }  # fmt: skip
    assert all(row.passed is not False for row in rows)
    assert sum(row.passed is True for row in rows) == 6 * 2 * 2 + 2
    exact = [row for row in rows if row.section == "rows' independence" and row.what.startswith("exact")]
    assert all("40 of 40" in row.found for row in exact)
    inexact = [row for row in rows if row.section == "rows' independence" and row.what.startswith("inexact")]
    assert not all("40 of 40" in row.found for row in inexact), "otherwise the question is not asked"
    exact_texts = [row for row in rows if row.section == "same text" and row.what.startswith("exact")]
    assert len(exact_texts) == 6 and all(row.found == "2 of 2 texts are the same" for row in exact_texts)
    assert all(row.seconds is not None and row.seconds > 0 for row in rows if row.section in ("C", "prefill", "D"))
    last = json.loads(json.dumps(records[-1]))
    assert len(last["rows"]) == len(rows) and last["not_run"] == []


def test_another_model_is_seen() -> None:
    bent = Bent("bent", tiny_models()[0].config)
    targets = {"exact": bent.on(CPU, torch.bfloat16, EXACT)}
    (row,) = checks.parity(bent, targets, 40)
    assert row.passed is False


def test_a_broken_section_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Sequence[str]] = []
    bench = a_bench(tiny_models()[0])
    scripted = Scripted(bench.device, bench.dtype, bench.model, None, bench.num_tokens, bench.contexts)
    rows = run(scripted, 60, lambda rows, missing: seen.append(tuple(missing)))
    assert [row.what for row in rows] == ["before", "broke off", "after"]
    assert rows[1].passed is False and rows[1].found == "RuntimeError: the driver said no"
    assert seen[-1] == ("long",)
    assert "long: not run, no time left" in capsys.readouterr().out


def test_parted_texts_are_told() -> None:
    assert checks._compared([(1, 2, 3), (4,)], [(1, 2, 3), (4,)]) == "2 of 2 texts are the same"
    assert checks._compared([(1, 2, 3), (4,)], [(1, 9, 3), (4,)]) == "1 of 2 texts are the same; others part at token 1"


def test_recordings_are_checked_and_compared() -> None:
    recorder = TapeRecorder()
    rows = list(checks.recordings(CPU, recorder, tiny_models()[:2]))
    assert [row.passed for row in rows] == [True, True] and recorder.num_played == 30
    decoder = tiny_models()[0].on(CPU, torch.float32, INEXACT)
    compared = list(times.recorded(decoder, [TapeRecorder()], 16, device_clock(CPU), passes=[(4, 1)]))
    assert [row.what.split(",")[0] for row in compared] == ["eager", "tape"]
    assert sum("fastest" in row.found for row in compared) == 1 and "recorded in" in compared[1].found
