"""What happens around the drafts, as axes of the same-text grids, and a run under one combination of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forerun.engine.drafting import Drafting
from forerun.models.base import Target
from forerun.sampling.params import SamplingParams
from support.pairwise import Row
from support.same_text import Prompt, Said, assert_same, say, without_logprobs
from support.serving import Arrival, Serving, threads

# A budget of 31 rows is the least that the widest tree runs with.
CIRCUMSTANCES: dict[str, Any] = {
    "row_budget": [31, 64, 128, 512],
    "arrival": list(Arrival),
    "is_interrupted": [False, True],
    "threads": [1, 2, 3, 4],
    "logprobs": [None, 4],
}


def say_under(
    row: Row, model: Target, prompts: Sequence[Prompt], params: SamplingParams, drafting: Drafting, **engine: Any
) -> Said:
    """All prompts under the circumstances in ``row``, which also says whether log-probabilities are asked for."""
    with threads(row["threads"]):
        return say(
            model,
            prompts,
            replace(params, logprobs=row["logprobs"]),
            drafting,
            hits_prefixes=row["hits_prefixes"],
            row_budget=row["row_budget"],
            serving=Serving(len(prompts), row["arrival"], row["is_interrupted"]),
            **engine,
        )


def assert_same_under(row: Row, found: Said, plain: Sequence[Said], *, bitwise: bool = True) -> None:
    """``assert_same`` against plain decoding that reported as many log-probabilities as ``row`` can ask for."""
    assert_same(found, plain if row["logprobs"] else [without_logprobs(said) for said in plain], bitwise=bitwise)


def mixed(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Every one of ``rows``, completed by one of ``others`` that a fixed seed draws."""
    rng = random.Random(0)
    return [row | rng.choice(others) for row in rows]
