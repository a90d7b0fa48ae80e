"""What runs a trial: an engine that takes prompts, a way of drafting and a concurrency, and hands back raw records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from forerun.conditions import Conditions
from forerun.drafters.base import Drafter
from forerun.engine.drafting import Drafting
from forerun.errors import ForerunError
from forerun.models.base import TargetTraits
from forerun.sampling.params import SamplingParams
from forerun.types import RoundCounts, Timings
from forerun.workloads.prompt import Prompt


class UnreachableError(ForerunError):
    """The engine doesn't answer: not a word about what it could do."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request as it went. Times are seconds from its submission; ``token_times`` one per token.

    ``prompt_ids`` and ``token_ids`` are the raw request and response; tokens of one round share a time.
    """

    prompt_id: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    seed: int
    num_cached_tokens: int
    seconds: float
    token_times: tuple[float, ...]
    counts: RoundCounts
    timings: Timings


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """All requests of one trial in the order of the prompts, the wall time of all, the most memory seen (bytes)."""

    requests: tuple[RequestRecord, ...]
    seconds: float
    peak_memory: int


class CostProbe(ABC):
    """Runs single passes and drafts, for C and D, and builds drafters, for replays.

    Engines that can't be opened have none. ``prefill_rows``: rows of a slice, as this engine cuts a prompt.
    """

    traits: TargetTraits
    prefill_rows: int

    @abstractmethod
    def run_pass(self, rows: int, sequences: int, context: int) -> None:
        """One target pass of ``rows`` rows in all over ``sequences`` sequences of ``context`` tokens each.

        A verify pass: the logits of every row are computed.
        """

    @abstractmethod
    def run_slice(self, rows: int, context: int) -> None:
        """One slice of prefill: ``rows`` rows behind ``context`` tokens of one sequence, logits of the last alone."""

    @abstractmethod
    def draft_runner(
        self, drafting: Drafting, params: SamplingParams, drafter: str, text: Sequence[int]
    ) -> Callable[[int, int], None]:
        """A function (N, sequences) that drafts once for so many requests whose text so far is ``text``."""

    @abstractmethod
    def start_runner(
        self, drafting: Drafting, params: SamplingParams, drafter: str, text: Sequence[int]
    ) -> Callable[[int], None]:
        """A function (tokens) that starts a new request over the first so many of ``text`` and drafts one token.

        What a drafter does with a prompt, once a request: it reads it, indexes it, or runs a second model over it.
        """

    @abstractmethod
    def new_drafter(self, drafting: Drafting, drafter: str = "") -> Drafter[Any]:
        """A cold drafter, built with all that this engine gives its own: for replays.

        Raises ``ForerunError`` where the engine would refuse to build it.
        """


class Backend(ABC):
    """An engine under trial, with one target. Each run starts cold: empty caches and corpora."""

    name: str

    @abstractmethod
    def check(self, drafting: Drafting, drafter: str) -> None:
        """Raises ``ForerunError`` if this way of drafting can't be run here: before anything is measured."""

    @abstractmethod
    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids as the target sees them, chat template included."""

    @abstractmethod
    def run(
        self,
        prompts: Sequence[Prompt],
        drafting: Drafting,
        params: SamplingParams,
        *,
        concurrency: int,
        drafter: str = "",
        warm_corpus: Sequence[Sequence[int]] = (),
    ) -> TrialRecord:
        """Closed loop: ``concurrency`` requests in flight until all are done.

        ``drafter`` names a drafter artifact that the backend was given; ``warm_corpus`` are token sequences that a
        shared corpus holds beforehand. Raises ``ForerunError`` for what the engine can't do, and ``UnreachableError``
        when it doesn't answer.
        """

    @abstractmethod
    def conditions(self, drafting: Drafting, params: SamplingParams, *, concurrency: int, drafter: str) -> Conditions:
        """All that this backend knows of the conditions of such a run."""

    @property
    def probe(self) -> CostProbe | None:
        """Access to single passes and drafts, if the engine gives it."""
        return None
