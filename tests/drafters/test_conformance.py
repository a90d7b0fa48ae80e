"""What every method must keep to, whatever it drafts: one suite over the whole registry.

A method added to the registry is tested here without an edit. One that needs weights finds them in ``ARTIFACTS`` under
its ``MethodInfo.weights``. The yardstick is a fresh drafter that is told the same text at once: whatever a state went
through, and whoever was beside it, it must draft the same.
"""

from __future__ import annotations

import gc
import io
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
import torch

from forerun.cache.block_pool import BlockPool
from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, TargetView
from forerun.drafters.method import BuildContext, DraftModel
from forerun.drafters.registry import METHODS, build
from forerun.models.base import Target
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams
from forerun.types import Dependency, Draft, Features, Weights
from support.tiny_decoder import tiny_decoder, truncated
from support.toy_target import ToyTarget

Found = TypeVar("Found")


@dataclass
class Artifacts:
    """A target, what a method is built from, and how often its own model ran."""

    target: Target
    context: BuildContext
    num_own_passes: Callable[[], int]


def without_weights() -> Artifacts:
    target = ToyTarget(order=0)
    return Artifacts(target, BuildContext(TargetView(target)), lambda: 0)


def with_separate_weights() -> Artifacts:
    target, model = ToyTarget(order=0), ToyTarget(order=0, salt=1)
    context = BuildContext(TargetView(target), None, DraftModel(model), num_slots=8192)
    return Artifacts(target, context, lambda: model.num_passes)


def with_a_separate_decoder() -> Artifacts:
    """Real attention over the pool, where a wrong slot is not found by an assertion but by other numbers."""
    target = tiny_decoder()
    context = BuildContext(TargetView(target), None, DraftModel(truncated(target, 2)), num_slots=8192)
    return Artifacts(target, context, lambda: 0)


ARTIFACTS: Mapping[Weights, Callable[[], Artifacts]] = {
    Weights.NONE: without_weights,
    Weights.IN_TARGET: without_weights,
    Weights.SEPARATE: with_separate_weights,
}
NUM_PASSES: Mapping[Dependency, Callable[[int], int]] = {
    Dependency.NONE: lambda n: 0,
    Dependency.SEQUENTIAL: lambda n: n,
    Dependency.PARALLEL: lambda n: 1,
    Dependency.PARALLEL_CORRECTED: lambda n: 1,
}
all_methods = pytest.mark.parametrize("name", METHODS)


def artifacts_of(name: str) -> Artifacts:
    return ARTIFACTS[METHODS[name].info.weights]()


@dataclass
class Story:
    """One request's truth: its text, from where features were handed over, and the state that lived through it all."""

    request: DraftRequest
    state: DrafterState
    tokens: list[int]
    first_featured: int
    num_featured: int

    def copy(self, state: DrafterState) -> Story:
        return Story(self.request, state, list(self.tokens), self.first_featured, self.num_featured)


class Stage:
    """Requests on one drafter, played at random, as an engine would: each committed token is observed once."""

    def __init__(self, name: str, artifacts: Artifacts, seed: int, temperature: float) -> None:
        self.name = name
        self.info = METHODS[name].info
        self.artifacts = artifacts
        self.rng = random.Random(seed)
        self.temperature = temperature
        self.vocab_size = artifacts.target.traits.vocab_size
        self.drafter: Drafter[Any] = build(name, {}, artifacts.context)
        self.stories: list[Story] = []
        self.num_begun = 0

    def begin(self) -> Story:
        """A prompt in chunks, perhaps on a prefix hit, and the prefill's token."""
        prompt = self.some_tokens(self.rng.randrange(1, 30))
        params = SamplingParams(temperature=self.temperature)
        sampler = KeyedSampler(
            params,
            seed=self.rng.randrange(1000),
            choice=0,
            prompt=prompt,
            eos_token_ids=(),
            vocab_size=self.vocab_size,
        )
        request = DraftRequest(self.num_begun, tuple(prompt), sampler)
        self.num_begun += 1
        num_hit = self.rng.choice([0, self.rng.randrange(len(prompt))])
        story = Story(request, self.drafter.begin(request), [], num_hit, num_hit)
        self.stories.append(story)
        if num_hit:
            self.drafter.observe(story.state, prompt[:num_hit], None)
            story.tokens += prompt[:num_hit]
        self.observe(story, [*prompt[num_hit:], *self.some_tokens(1)])
        return story

    def observe(self, story: Story, tokens: Sequence[int]) -> None:
        """Committed tokens in chunks, each with the states of the rows that the target has processed by then."""
        while tokens:
            cut = self.rng.randrange(1, len(tokens) + 1)
            story.tokens += tokens[:cut]
            end = len(story.tokens) - 1
            features = features_of(self.artifacts.target, self.drafter, story.tokens, story.num_featured, end)
            self.drafter.observe(story.state, tokens[:cut], features)
            story.num_featured = max(story.num_featured, end)
            tokens = tokens[cut:]
        assert story.state.num_observed == len(story.tokens)

    def some_tokens(self, count: int) -> list[int]:
        """Few different tokens, so that retrieval finds something."""
        return [self.rng.randrange(1, 4) for _ in range(count)]

    def limit(self) -> DraftLimit:
        num_tokens = self.rng.randrange(0, min(6, self.info.max_num_speculative_tokens) + 1)
        if self.info.has_trees and self.rng.random() < 0.5:
            return DraftLimit(num_tokens, num_tokens + self.rng.randrange(0, 6), is_tree=True)
        return DraftLimit(num_tokens, num_tokens)

    def fresh_draft(self, story: Story, limit: DraftLimit) -> Draft:
        """What a new drafter says to the same text, alone and told at once."""
        drafter: Drafter[Any] = build(self.name, {}, self.artifacts.context)
        state = drafter.begin(story.request)
        if story.first_featured:
            drafter.observe(state, story.tokens[: story.first_featured], None)
        features = features_of(self.artifacts.target, drafter, story.tokens, story.first_featured, story.num_featured)
        drafter.observe(state, story.tokens[story.first_featured :], features)
        draft: Draft = drafter.propose([state], [limit])[0]
        drafter.end(state)
        return draft

    def round(self) -> None:
        """A batch proposes; each draft is checked, a part of it committed, and a token of the target's behind it."""
        chosen = [story for story in self.stories if self.rng.random() < 0.7]
        limits = [self.limit() for _ in chosen]
        drafts = self.drafter.propose([story.state for story in chosen], limits)
        assert len(drafts) == len(chosen)
        for story, limit, draft in zip(chosen, limits, drafts, strict=True):
            check_limit(draft, limit, self.vocab_size)
            assert draft == self.fresh_draft(story, limit)
            path = draft.path_to(self.rng.randrange(len(draft) + 1))
            accepted = [draft.tokens[row - 1] for row in path[1:]]
            self.observe(story, [*accepted, *self.some_tokens(1)])

    def fork(self, story: Story) -> None:
        self.stories.append(story.copy(story.state.fork()))

    def truncate(self, story: Story) -> None:
        length = self.rng.randrange(1, len(story.tokens) + 1)
        story.state.truncate(length)
        assert story.state.num_observed == length
        del story.tokens[length:]
        story.first_featured = min(story.first_featured, length)
        story.num_featured = min(story.num_featured, length)
        self.observe(story, self.some_tokens(self.rng.randrange(1, 6)))

    def save_and_load(self, story: Story) -> None:
        file = io.BytesIO()
        torch.save(story.state.export(), file)
        file.seek(0)
        self.drafter.end(story.state)
        story.state = self.drafter.restore(story.request, torch.load(file, weights_only=True))
        assert story.state.num_observed == len(story.tokens)

    def end(self, story: Story) -> None:
        self.drafter.end(story.state)
        self.stories.remove(story)

    def play(self, num_acts: int) -> None:
        """Random acts, most of them rounds; in the end nothing is left on stage."""
        for _ in range(num_acts):
            act = self.rng.choice(["begin", "round", "round", "round", "fork", "truncate", "save_and_load", "end"])
            if act == "round":
                self.round()
            elif act == "begin" or not self.stories:
                self.begin()
            elif act != "fork" or len(self.stories) < 6:
                getattr(self, act)(self.rng.choice(self.stories))
        while self.stories:
            self.end(self.rng.choice(self.stories))


def features_of(target: Target, drafter: Drafter[Any], tokens: Sequence[int], first: int, end: int) -> Features | None:
    """The tapped states of positions first..end-1 of a text, None where nothing is tapped or nothing new is there."""
    if not drafter.taps or first >= end:
        return None
    return Features(first, {tap: states[first:end] for tap, states in target_states(target, drafter, tokens).items()})


def target_states(target: Target, drafter: Drafter[Any], tokens: Sequence[int]) -> Mapping[Any, torch.Tensor]:
    from forerun.models.base import AttentionGroup, PassInput

    rows = torch.arange(len(tokens))
    group = AttentionGroup(tuple(range(len(tokens))), rows)
    batch = PassInput(
        torch.tensor(tokens), rows, rows, (0,) * len(tokens), (group,), (len(tokens) - 1,), {0: len(tokens)}
    )
    return target.forward(batch, target.new_store(len(tokens)), drafter.taps).taps


def check_limit(draft: Draft, limit: DraftLimit, vocab_size: int) -> None:
    assert len(draft) <= limit.num_rows
    assert max(draft.depths()) <= limit.num_tokens
    assert draft.is_chain or limit.is_tree
    assert all(0 <= token < vocab_size for token in draft.tokens)
    for children in draft.children():
        siblings = [draft.tokens[child - 1] for child in children]
        assert len(set(siblings)) == len(siblings), "two siblings of one token are one row too many"


def reachable(root: object, kind: type[Found]) -> list[Found]:
    """Instances of ``kind`` that ``root`` refers to, however far; not through classes, functions, modules."""
    skipped = (type, type(gc), type(reachable), type(gc.collect))
    seen, pending, found = {id(root)}, [root], []
    while pending:
        value = pending.pop()
        if isinstance(value, kind):
            found.append(value)
        for other in gc.get_referents(value):
            if id(other) not in seen and not isinstance(other, skipped):
                seen.add(id(other))
                pending.append(other)
    return found


@all_methods
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 100))])
def test_any_story_drafts_what_a_fresh_drafter_does(name: str, seed: int, temperature: float) -> None:
    stage = Stage(name, artifacts_of(name), seed, temperature)
    stage.play(40)
    assert all(pool.num_held == 0 for pool in reachable(stage.drafter, BlockPool))


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].info.weights is Weights.SEPARATE])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_stories_over_a_real_decoder(name: str, seed: int) -> None:
    Stage(name, with_a_separate_decoder(), seed, 0.8).play(20)


@all_methods
def test_a_batch_drafts_what_each_drafts_alone(name: str) -> None:
    stage = Stage(name, artifacts_of(name), 5, 0.8)
    stories = [stage.begin() for _ in range(5)]
    for _ in range(3):
        limits = [stage.limit() for _ in stories]
        together = stage.drafter.propose([story.state for story in stories], limits)
        alone = [stage.drafter.propose([story.state], [limit])[0] for story, limit in zip(stories, limits, strict=True)]
        assert together == alone
        for story in stories:
            stage.observe(story, stage.some_tokens(2))


@all_methods
def test_nothing_is_drafted_from_other_requests(name: str) -> None:
    """Text that only a neighbour, running or finished, has seen changes nothing."""
    stage = Stage(name, artifacts_of(name), 6, 0.0)
    story = stage.begin()
    limit = DraftLimit(*(2 * [min(4, stage.info.max_num_speculative_tokens)]))
    before = stage.drafter.propose([story.state], [limit])
    for _ in range(3):
        neighbour = stage.begin()
        stage.observe(neighbour, [*story.tokens, 3, 3, 3, 3])
        stage.drafter.propose([neighbour.state], [limit])
        if stage.rng.random() < 0.5:
            stage.end(neighbour)
    assert stage.drafter.propose([story.state], [limit]) == before


@all_methods
def test_what_requests_held_is_given_back(name: str) -> None:
    """After any number of requests a drafter holds as much as after one."""
    stage = Stage(name, artifacts_of(name), 7, 0.8)
    sizes = []
    for _ in range(4):
        stage.play(15)
        sizes.append(len(reachable(stage.drafter, object)))
    assert len(set(sizes[1:])) == 1


@all_methods
def test_the_declared_dependency_is_what_is_measured(name: str) -> None:
    artifacts = artifacts_of(name)
    stage = Stage(name, artifacts, 8, 0.8)
    stories = [stage.begin() for _ in range(3)]
    for num_tokens in range(min(7, stage.info.max_num_speculative_tokens) + 1):
        before = artifacts.num_own_passes()
        stage.drafter.propose([story.state for story in stories], [DraftLimit(num_tokens, num_tokens)] * 3)
        measured = artifacts.num_own_passes() - before
        assert measured == (NUM_PASSES[stage.info.dependency](num_tokens) if num_tokens else 0)
        for story in stories:
            stage.observe(story, stage.some_tokens(1))
    if not stage.drafter.taps:
        assert isinstance(artifacts.target, ToyTarget)
        assert artifacts.target.num_passes == 0, "a drafter never runs the target"
