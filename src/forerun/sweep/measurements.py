"""What one trial yields: prompts' outcomes, an arm (one candidate over some prompts), a pair (candidate and off)."""

from __future__ import annotations

from dataclasses import dataclass

from forerun.sweep.cells import Cell
from forerun.types import RoundCounts, Timings


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """One request of an arm.

    ``token_times``: seconds from submission to each token, prefill's token first, equal within one round.
    ``text_hash`` covers the token ids, so equal hashes mean equal texts. ``has_passed`` is ``None`` without a checker.
    """

    prompt_id: str
    seconds: float
    token_times: tuple[float, ...]
    counts: RoundCounts
    text_hash: str
    finish_reason: str = ""
    prompt_repetition: float = 0.0
    repetition: float = 0.0
    is_looping: bool = False
    has_passed: bool | None = None
    prompt_compressibility: float = 0.0
    compressibility: float = 0.0
    is_prompt_looping: bool = False

    @property
    def num_tokens(self) -> int:
        """Tokens given out."""
        return len(self.token_times)

    @property
    def ttft(self) -> float | None:
        """Seconds to the first token."""
        return self.token_times[0] if self.token_times else None

    @property
    def inter_token_times(self) -> list[float]:
        """Seconds per token after the first: k tokens that came together after a gap g count as k times g / k.

        So a rate is per token, never per chunk, and the times add up to the time between first and last token.
        """
        times: list[float] = []
        start = 1
        while start < len(self.token_times):
            end = start
            while end < len(self.token_times) and self.token_times[end] == self.token_times[start]:
                end += 1
            size = end - start
            times += [(self.token_times[start] - self.token_times[start - 1]) / size] * size
            start = end
        return times


@dataclass(frozen=True, slots=True)
class LoadReading:
    """How busy the machine was around an arm: load average, CPU seconds of others, our involuntary switches."""

    seconds: float
    load_average: float
    foreign_cpu_seconds: float
    involuntary_switches: int
    num_cpus: int

    @property
    def foreign_share(self) -> float:
        """Share of the machine's CPU time that other processes took."""
        available = self.seconds * self.num_cpus
        return self.foreign_cpu_seconds / available if available > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Arm:
    """One candidate over the prompts of a trial. ``seconds`` is wall time, prefill included."""

    prompts: tuple[PromptOutcome, ...]
    seconds: float
    timings: Timings
    peak_memory: int
    load: LoadReading

    @property
    def num_tokens(self) -> int:
        """Tokens given out over all prompts."""
        return sum(prompt.num_tokens for prompt in self.prompts)

    @property
    def throughput(self) -> float:
        """Tokens finished over wall time."""
        return self.num_tokens / self.seconds

    @property
    def counts(self) -> RoundCounts:
        """Raw counts over all prompts."""
        return sum((prompt.counts for prompt in self.prompts), RoundCounts())


@dataclass(frozen=True, slots=True)
class PairResult:
    """A cell's candidate and ``off``, run in turn on the same prompts.

    ``spoiled_by`` says what the machine did; it is empty for a pair that counts. The ratio never decides that.
    """

    cell: Cell
    index: int
    candidate: Arm
    off: Arm
    is_candidate_first: bool
    spoiled_by: str = ""

    def __post_init__(self) -> None:
        ours, theirs = ([prompt.prompt_id for prompt in arm.prompts] for arm in (self.candidate, self.off))
        if ours != theirs:
            raise ValueError(f"the arms of a pair must run the same prompts, found {ours} and {theirs}")

    @property
    def is_spoiled(self) -> bool:
        """Whether the machine was too busy for this pair to count."""
        return bool(self.spoiled_by)

    @property
    def ratio(self) -> float:
        """Throughput of the candidate over throughput of ``off``."""
        return self.candidate.throughput / self.off.throughput

    @property
    def prompt_ratios(self) -> list[float]:
        """Per prompt: seconds of ``off`` over seconds of the candidate, corrected for unequal token counts."""
        return [
            (ours.num_tokens / ours.seconds) / (theirs.num_tokens / theirs.seconds)
            for ours, theirs in zip(self.candidate.prompts, self.off.prompts, strict=True)
            if ours.num_tokens and theirs.num_tokens
        ]

    @property
    def differing_prompts(self) -> list[str]:
        """Prompts whose text changed with drafting: for a lossless method each is a bug."""
        return [
            ours.prompt_id
            for ours, theirs in zip(self.candidate.prompts, self.off.prompts, strict=True)
            if ours.text_hash != theirs.text_hash
        ]

    @property
    def has_looping_output(self) -> bool:
        """Whether an output repeats itself without end: shown, kept out of every verdict."""
        return any(prompt.is_looping for arm in (self.candidate, self.off) for prompt in arm.prompts)
