"""What the table says where the machine left little or nothing to say."""

from __future__ import annotations

import pytest
from benchmarks.figures import Figure
from benchmarks.pairs import Ratio, Turn, compare
from benchmarks.quantisation import speed_cell

from benchmarks import figures, pairs
from forerun.errors import ForerunError
from forerun.sweep.load_guard import LoadLimits

NOTHING = "– (0 pairs, 18 left out: the machine was busy)"


def take_turns(monkeypatch: pytest.MonkeyPatch, num_quiet: int) -> None:
    """Turns of one second each, of which only the first pairs count."""
    spoils = iter([""] * 2 * num_quiet)
    monkeypatch.setattr(pairs, "take_turn", lambda call, limits: Turn(1.0, next(spoils, "load")))


def ratio_of(num_pairs: int) -> Ratio:
    return compare(lambda: None, lambda: None, num_pairs, LoadLimits())


@pytest.mark.parametrize(
    ("num_quiet", "text"),
    [(6, "1.00 [1.00, 1.00]"), (5, "1.00 (5 pairs, too few for an interval)"), (0, NOTHING)],
)
def test_a_ratio_says_what_there_is_of_it(monkeypatch: pytest.MonkeyPatch, num_quiet: int, text: str) -> None:
    take_turns(monkeypatch, num_quiet)
    assert ratio_of(6).text == text


@pytest.mark.parametrize(("num_quiet", "code"), [(6, 0), (0, 1)])
def test_a_missing_figure_is_no_number_and_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], num_quiet: int, code: int
) -> None:
    take_turns(monkeypatch, num_quiet)
    monkeypatch.setattr(figures, "FIGURES", (Figure("rows", "C", "<= 1", lambda models, n: ratio_of(n)),))
    monkeypatch.setattr("sys.argv", ["figures", "model", "--only", "rows", "--pairs", "6"])
    assert figures.main() == code
    out = capsys.readouterr().out
    assert "nan" not in out and (NOTHING in out) is bool(code)


def test_a_speed_that_was_not_measured_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    take_turns(monkeypatch, 0)
    assert speed_cell(ratio_of(6)) == f"– | {NOTHING} | 0 (18) |"


def test_fewer_pairs_than_an_interval_needs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["figures", "model", "--pairs", "5"])
    with pytest.raises(ForerunError, match="expected --pairs of at least 6; found 5"):
        figures.main()
