"""Knobs of drafting with a second model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from forerun.errors import ForerunError

DraftSampling = Literal["keyed", "greedy"]


@dataclass(frozen=True, slots=True)
class DraftModelConfig:
    """How the draft model's law q becomes drafts. Raises ``ForerunError`` for values out of range.

    ``draft_sampling``: "keyed" drafts argmax(log q / T + G) with the target's own noise G, "greedy" argmax q; the two
    agree at T = 0. ``temperature`` multiplies the request's T in q: below 1 a badly calibrated drafter agrees more.
    ``branching``: children per node, and nodes per depth that get children, where a tree is asked for.
    ``max_pass_rows`` bounds one pass while a prompt is caught up with.
    """

    draft_sampling: Annotated[DraftSampling, "keyed drafts with the target's own noise, greedy without any"] = "keyed"
    temperature: Annotated[float, "factor on the request's temperature in the draft model's law"] = 1.0
    branching: Annotated[int, "in a tree: children per node, and nodes per depth that get children"] = 4
    max_pass_rows: Annotated[int, "rows of one pass while a prompt is caught up with"] = 512

    def __post_init__(self) -> None:
        if self.draft_sampling not in ("keyed", "greedy"):
            raise ForerunError("draft_sampling keyed or greedy", repr(self.draft_sampling), "choose one of the two")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ForerunError("a drafter temperature of at least 0", str(self.temperature), "correct the knob")
        if self.branching < 1 or self.max_pass_rows < 1:
            raise ForerunError(
                "branching and max_pass_rows of at least 1",
                f"branching={self.branching}, max_pass_rows={self.max_pass_rows}",
                "raise draft_model's knobs",
            )
