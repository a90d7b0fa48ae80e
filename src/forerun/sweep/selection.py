"""Which cells of a quick tune are measured, by what they promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

from forerun.sweep.cells import Candidate, Cell, Setting
from forerun.sweep.cost_model import Prediction
from forerun.sweep.curve import PREDICTION_TOLERANCE

# A second family is worth measuring if it promises no less than this share below the best.
CLOSE = PREDICTION_TOLERANCE


class Role(Enum):
    """Whether a cell is measured: at once, if time is left, or not because another promises more."""

    PICK = "pick"
    RUNNER_UP = "runner-up"
    PASSED_OVER = "passed over"


def select(cells: Sequence[Cell], predictions: Mapping[Cell, Prediction], controls: set[str]) -> dict[Cell, Role]:
    """What to measure of each setting: the most promising cell, then the best of another family if time is left.

    Along N the model errs alike, so a family's best stands for it; between families D and acceptance err apart, so a
    second family is a second opinion where its promise is within the model's tolerance of the first. On the control,
    what was picked most often elsewhere: inflation compares one same candidate.
    """
    by_setting: dict[Setting, list[Cell]] = {}
    for cell in cells:
        by_setting.setdefault(cell.setting, []).append(cell)
    roles = dict.fromkeys(cells, Role.PASSED_OVER)
    for setting, members in by_setting.items():
        if setting.workload in controls:
            continue
        pick = max(members, key=lambda cell: _rank(cell, predictions))
        roles[pick] = Role.PICK
        others = [cell for cell in members if cell.candidate.family != pick.candidate.family]
        rival = max(others, key=lambda cell: _rank(cell, predictions), default=None)
        if rival is not None and _promise(rival, predictions) >= _promise(pick, predictions) * (1 - CLOSE):
            roles[rival] = Role.RUNNER_UP
    common: Counter[Candidate] = Counter(cell.candidate for cell, role in roles.items() if role is Role.PICK)
    for setting, members in by_setting.items():
        if setting.workload in controls:
            roles[max(members, key=lambda cell: (common[cell.candidate], *_rank(cell, predictions)))] = Role.PICK
    return roles


def _rank(cell: Cell, predictions: Mapping[Cell, Prediction]) -> tuple[float, int]:
    """Higher is more promising; of two that promise the same the smaller N."""
    return round(_promise(cell, predictions), 3), -cell.candidate.num_speculative_tokens


def _promise(cell: Cell, predictions: Mapping[Cell, Prediction]) -> float:
    """The predicted ratio; no prediction promises nothing."""
    prediction = predictions.get(cell)
    return prediction.ratio if prediction is not None else 0.0
