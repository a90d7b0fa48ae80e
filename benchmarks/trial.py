"""One prompt answered by one setting, and what is read off two of them side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.peers.base import Answer, Setting
from forerun.sweep.results import Interval
from forerun.sweep.statistics import median, median_interval


@dataclass(frozen=True, slots=True)
class Trial:
    """``round`` tells which trials ran side by side: same servers, same minute. ``spoiled`` is why it doesn't count."""

    stage: str
    round: int
    workload: str
    prompt_id: str
    setting: Setting
    answer: Answer
    spoiled: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it counts."""
        return not self.spoiled


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much faster the first setting was, pair by pair; no interval below six pairs."""

    values: tuple[float, ...]

    @property
    def num_pairs(self) -> int:
        """Prompts that both answered on a quiet machine."""
        return len(self.values)

    @property
    def median(self) -> float | None:
        """Of nothing, None."""
        return median(self.values) if self.values else None

    @property
    def interval(self) -> Interval | None:
        """Order statistics, 96.9 % at least."""
        return median_interval(self.values)


def throughput_ratio(trials: Iterable[Trial], ours: Setting, theirs: Setting) -> Ratio:
    """End to end: both wrote the same number of tokens, so it is the other's time over ours."""
    return _paired(trials, ours, theirs, lambda a, b: b.seconds / a.seconds)


def decode_ratio(trials: Iterable[Trial], ours: Setting, theirs: Setting) -> Ratio:
    """Time per token behind the first one, the other's over ours."""
    return _paired(trials, ours, theirs, _decode_ratio)


def _decode_ratio(a: Answer, b: Answer) -> float | None:
    ours, theirs = a.seconds_per_token, b.seconds_per_token
    return theirs / ours if ours and theirs else None


def _paired(
    trials: Iterable[Trial], ours: Setting, theirs: Setting, ratio: Callable[[Answer, Answer], float | None]
) -> Ratio:
    kept = [trial for trial in trials if trial.is_kept]
    of_theirs = {(t.stage, t.round, t.prompt_id): t.answer for t in kept if t.setting == theirs}
    values = [
        ratio(trial.answer, of_theirs[key])
        for trial in kept
        if trial.setting == ours and (key := (trial.stage, trial.round, trial.prompt_id)) in of_theirs
    ]
    return Ratio(tuple(value for value in values if value is not None))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the kept trials of one setting."""

    num_trials: int
    num_spoiled: int
    tokens_per_second: float | None
    seconds_per_token: float | None
    num_drafted: int
    num_accepted: int
    tokens_per_step: float | None


def totals(trials: Iterable[Trial], setting: Setting) -> Totals:
    """Medians of speeds over prompts, sums of counts."""
    own = [trial for trial in trials if trial.setting == setting]
    answers = [trial.answer for trial in own if trial.is_kept]
    per_token = [answer.seconds_per_token for answer in answers if answer.seconds_per_token]
    stepped = [answer for answer in answers if answer.num_steps]
    num_steps = sum(answer.num_steps or 0 for answer in stepped)
    return Totals(
        len(answers),
        len(own) - len(answers),
        median([answer.tokens_per_second for answer in answers]) if answers else None,
        median(per_token) if per_token else None,
        sum(answer.num_drafted for answer in answers),
        sum(answer.num_accepted for answer in answers),
        sum(len(answer.token_ids) - 1 for answer in stepped) / num_steps if num_steps else None,
    )


def best(trials: Sequence[Trial], settings: Iterable[Setting], reference: Setting) -> Setting | None:
    """The setting whose median ratio to ``reference`` is highest; None where none ran beside it."""
    medians = {setting: throughput_ratio(trials, setting, reference).median for setting in settings}
    measured = {setting: value for setting, value in medians.items() if value is not None}
    return max(measured, key=lambda setting: measured[setting]) if measured else None


def num_common_tokens(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common beginning."""
    return next((i for i, (left, right) in enumerate(zip(a, b)) if left != right), min(len(a), len(b)))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a setting's texts are those of the reference: engines round differently, and near-ties then turn."""

    num_texts: int
    num_same: int
    first_differences: tuple[int, ...]


def agreement(trials: Sequence[Trial], setting: Setting, reference: Setting) -> Agreement:
    """Over all prompts that both answered, spoiled or not: load doesn't change a text."""
    texts = {trial.prompt_id: trial.answer.token_ids for trial in trials if trial.setting == reference}
    own = {trial.prompt_id: trial.answer.token_ids for trial in trials if trial.setting == setting}
    pairs = [(own[id], texts[id]) for id in own if id in texts]
    differing = [num_common_tokens(a, b) for a, b in pairs if a != b]
    return Agreement(len(pairs), len(pairs) - len(differing), tuple(differing))
