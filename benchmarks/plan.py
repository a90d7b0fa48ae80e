"""What one run measures: everything that the command line can say, with the two sizes that it comes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.finalists import ANY_PEER
from forerun.errors import ForerunError

PEERS = ("llama.cpp", "transformers", "vLLM")

# What forerun aims at, by (plain or a workload, peer).
AIMS: Mapping[tuple[str, str], float] = {
    ("plain", "transformers"): 2.0,
    ("code_edit", ANY_PEER): 1.5,
    ("human_eval", ANY_PEER): 1.3,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Numbers of prompts are per workload; ``num_positions`` are those where divergences are taken.

    ``seconds`` is the time for measuring: environments, servers and answers are prepared outside of it.
    ``has_few_settings`` leaves each method its likeliest best, ``is_eager`` runs vLLM uncompiled.
    """

    target: str
    draft: str | None = None
    peers: tuple[str, ...] = PEERS
    workloads: tuple[str, ...] = ("code_edit", "human_eval")
    threads: int = 2
    num_choose: int = 6
    num_measure: int = 16
    max_tokens: int = 128
    max_prompt: int = 1024
    min_tokens: int = 16
    num_positions: int = 48
    seconds: float = 7200.0
    gguf_dtype: str = "bfloat16"
    max_foreign_share: float = 0.10
    seed: int = 0
    has_few_settings: bool = False
    is_eager: bool = False
    is_quick: bool = False

    @property
    def context(self) -> int:
        """Tokens that every server has room for: prompt, answer and a draft behind it."""
        return -(-(self.max_prompt + self.max_tokens + 64) // 256) * 256

    def quick(self) -> Plan:
        """Few settings, prompts and tokens; vLLM runs uncompiled: compiling takes most of a minute a setting."""
        return replace(
            self,
            num_choose=2,
            num_measure=6,
            max_tokens=48,
            max_prompt=512,
            num_positions=0,
            seconds=330.0,
            has_few_settings=True,
            is_eager=True,
            is_quick=True,
        )

    def changed(self, **values: Any) -> Plan:
        """With every value that isn't None in its place. Raises ForerunError for numbers that measure nothing."""
        plan = replace(self, **{name: value for name, value in values.items() if value is not None})
        for name in ("threads", "num_choose", "num_measure", "max_tokens"):
            if getattr(plan, name) < 1:
                raise ForerunError(f"{name} of at least 1", str(getattr(plan, name)), "raise it")
        return plan
