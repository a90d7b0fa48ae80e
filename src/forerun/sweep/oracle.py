"""Counts of a retrieval method without running the target.

The contract fixes the text, so a recorded continuation says what each verification would have accepted. A drafter that
reads nothing but tokens (``Weights.NONE``) can therefore be replayed over it: the counts are those of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forerun.drafters.base import Drafter, DraftRequest
from forerun.engine.drafting import Drafting
from forerun.errors import ForerunError
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sweep.measurements import PromptOutcome
from forerun.types import Draft, RoundCounts, Weights

DrafterFactory = Callable[[], Drafter[Any]]


@dataclass(frozen=True, slots=True)
class Recording:
    """One request as ``off`` answered it: all its tokens, the prefill's first.

    ``max_tokens`` is what it was allowed, cut where the context ends.

    Exact for outputs that ended by an end token, a stop token or the length. After a stop text, tokens that the engine
    may have verified past the end are not in the recording and count as rejected.
    """

    prompt_id: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    max_tokens: int
    sampler: KeyedSampler


def replay(new_drafter: DrafterFactory, recording: Recording, drafting: Drafting) -> RoundCounts:
    """Counts of one request, round by round as the engine would: a fresh drafter, so nothing leaks in.

    The row budget is taken as never short. Raises ForerunError for a method that needs more than tokens.
    """
    drafter, state = _begin(new_drafter, recording)
    drafter.observe(state, recording.output[:1], None)
    counts, done = RoundCounts(), 1
    while done < len(recording.output):
        found, emitted = _round(drafter, state, recording, drafting, done)
        counts += found
        drafter.observe(state, recording.output[done : done + emitted], None)
        done += emitted
    drafter.end(state)
    return counts


def replay_all(new_drafter: DrafterFactory, recording: Recording, draftings: Sequence[Drafting]) -> list[RoundCounts]:
    """Counts per drafting (several N or shapes of one method with the same knobs) while the text is observed once.

    Valid for drafters whose proposal depends on the committed tokens alone: not on how they arrived in chunks, nor on
    earlier proposals. Each drafting keeps its own place of the next round. Use ``replay`` for drafters that adapt.
    """
    drafter, state = _begin(new_drafter, recording)
    counts = [RoundCounts() for _ in draftings]
    next_round = [1 for _ in draftings]
    for done in range(1, len(recording.output)):
        drafter.observe(state, recording.output[done - 1 : done], None)
        for index, drafting in enumerate(draftings):
            if next_round[index] == done:
                found, emitted = _round(drafter, state, recording, drafting, done)
                counts[index] += found
                next_round[index] += emitted
    drafter.end(state)
    return counts


def _begin(new_drafter: DrafterFactory, recording: Recording) -> tuple[Drafter[Any], Any]:
    drafter = require_replayable(new_drafter())
    state = drafter.begin(DraftRequest(0, recording.prompt, recording.sampler))
    drafter.observe(state, recording.prompt, None)
    return drafter, state


def _round(
    drafter: Drafter[Any], state: Any, recording: Recording, drafting: Drafting, done: int
) -> tuple[RoundCounts, int]:
    """Counts of the round that starts after ``done`` output tokens, and how many tokens it gives out."""
    limit = drafting.limit(recording.max_tokens - done, drafting.max_rows)
    draft = drafter.propose([state], [limit])[0] if limit.num_tokens else Draft()
    accepted, emitted = verify_against(draft, recording.output[done:])
    return RoundCounts.of_round(draft, accepted, emitted), emitted


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
