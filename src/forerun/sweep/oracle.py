"""Counts of a retrieval method without running the target.

The contract fixes the text, so a recorded continuation says what each verification would have accepted. A drafter that
reads nothing but tokens (``Weights.NONE``) can therefore be replayed over it: the counts are those of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from forerun.drafters.base import Drafter, DraftLimit, DraftRequest
from forerun.errors import ForerunError
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sweep.measurements import PromptOutcome
from forerun.types import Draft, RoundCounts, Weights

DrafterFactory = Callable[[], Drafter[Any]]


@dataclass(frozen=True, slots=True)
class Recording:
    """One request as ``off`` answered it: all its tokens, the prefill's first. ``max_tokens`` is what it was allowed.

    Exact for outputs that ended by an end token, a stop token or the length. After a stop text, tokens that the engine
    may have verified past the end are not in the recording and count as rejected.
    """

    prompt_id: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    max_tokens: int
    sampler: KeyedSampler


class LimitRule(Protocol):
    """How many tokens a round may draft, by N and the tokens still allowed; must be the engine's own rule."""

    def __call__(self, num_speculative_tokens: int, num_remaining: int, is_tree: bool) -> DraftLimit: ...


def limit_to_remaining(num_speculative_tokens: int, num_remaining: int, is_tree: bool) -> DraftLimit:
    """N, but no token that could never be given out: the target's own token takes the last place."""
    depth = max(min(num_speculative_tokens, num_remaining - 1), 0)
    return DraftLimit(depth, num_speculative_tokens if is_tree and depth else depth, is_tree)


def replay(
    new_drafter: DrafterFactory,
    recording: Recording,
    num_speculative_tokens: int,
    *,
    is_tree: bool = False,
    limit: LimitRule = limit_to_remaining,
) -> RoundCounts:
    """Counts of one request, round by round as the engine would: a fresh drafter, so nothing leaks in.

    Raises ForerunError for a method that needs more than tokens.
    """
    drafter = require_replayable(new_drafter())
    state = drafter.begin(DraftRequest(0, recording.prompt, recording.sampler))
    drafter.observe(state, recording.prompt, None)
    drafter.observe(state, recording.output[:1], None)
    counts, done = RoundCounts(), 1
    while done < len(recording.output):
        allowed = limit(num_speculative_tokens, recording.max_tokens - done, is_tree)
        (draft,) = drafter.propose([state], [allowed])
        accepted, emitted = verify_against(draft, recording.output[done:])
        counts += RoundCounts.of_round(draft, accepted, emitted)
        drafter.observe(state, recording.output[done : done + emitted], None)
        done += emitted
    drafter.end(state)
    return counts


def replay_lengths(
    new_drafter: DrafterFactory,
    recording: Recording,
    lengths: Iterable[int],
    *,
    is_tree: bool = False,
    limit: LimitRule = limit_to_remaining,
) -> dict[int, RoundCounts]:
    """Counts for several N while the text is observed once.

    Valid for drafters whose proposal depends on the committed tokens alone: not on how they arrived in chunks, nor on
    earlier proposals. Each N keeps its own place of the next round. Use ``replay`` for drafters that adapt.
    """
    drafter = require_replayable(new_drafter())
    state = drafter.begin(DraftRequest(0, recording.prompt, recording.sampler))
    drafter.observe(state, recording.prompt, None)
    counts = {n: RoundCounts() for n in lengths}
    next_round = dict.fromkeys(counts, 1)
    for done in range(1, len(recording.output)):
        drafter.observe(state, recording.output[done - 1 : done], None)
        for n in [n for n, start in next_round.items() if start == done]:
            (draft,) = drafter.propose([state], [limit(n, recording.max_tokens - done, is_tree)])
            accepted, emitted = verify_against(draft, recording.output[done:])
            counts[n] += RoundCounts.of_round(draft, accepted, emitted)
            next_round[n] = done + emitted
    drafter.end(state)
    return counts


def verify_against(draft: Draft, continuation: Sequence[int]) -> tuple[int, int]:
    """(accepted, emitted) of one round: down the draft while it agrees, then the target's own token if one is left."""
    children = draft.children()
    row = accepted = 0
    while accepted < len(continuation):
        wanted = continuation[accepted]
        step = next((child for child in children[row] if draft.tokens[child - 1] == wanted), None)
        if step is None:
            break
        row, accepted = step, accepted + 1
    return accepted, min(accepted + 1, len(continuation))


def require_replayable(drafter: Drafter[Any]) -> Drafter[Any]:
    """The drafter, if it reads tokens alone. Raises ForerunError otherwise."""
    if drafter.info.weights is not Weights.NONE:
        raise ForerunError(
            "a method without weights to replay over recorded text",
            f"{drafter.info.name}, whose weights are {drafter.info.weights.value}",
            "measure it instead",
        )
    return drafter


@dataclass(frozen=True, slots=True)
class Leak:
    """A prompt on which an arm's counts are not those of a cold replay: a corpus or cache fed it."""

    prompt_id: str
    expected: RoundCounts
    found: RoundCounts


def find_leaks(outcomes: Iterable[PromptOutcome], expected: Mapping[str, RoundCounts]) -> list[Leak]:
    """Prompts whose counts differ from the replay under the named corpus; prompts without a replay are not judged."""
    return [
        Leak(outcome.prompt_id, expected[outcome.prompt_id], outcome.counts)
        for outcome in outcomes
        if outcome.prompt_id in expected and expected[outcome.prompt_id] != outcome.counts
    ]


def require_no_leak(outcomes: Iterable[PromptOutcome], expected: Mapping[str, RoundCounts]) -> None:
    """Raises ForerunError that names the first prompt whose drafts knew more than they may."""
    leaks = find_leaks(outcomes, expected)
    if leaks:
        first = leaks[0]
        raise ForerunError(
            f"the counts of a replay with nothing but its own prompt and the named corpus for {first.prompt_id} "
            f"({first.expected.accepted} of {first.expected.drafted} accepted)",
            f"{first.found.accepted} of {first.found.drafted}, and so on for {len(leaks)} prompts: another run fed it",
            "start every trial with an empty corpus and an empty prefix cache",
        )
