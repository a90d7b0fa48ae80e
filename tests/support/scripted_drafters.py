"""Drafters whose acceptance is known beforehand, for tests of everything that happens after the draft."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from forerun.drafters.base import Drafter, DrafterState, DraftLimit, DraftRequest, MethodInfo
from forerun.types import Borrows, Dependency, Draft, Features, Tap, TapKind, Weights

# (prompt, choice) -> the text that plain decoding gives: how the oracle knows.
Texts = dict[tuple[tuple[int, ...], int], Sequence[int]]


class ScriptState(DrafterState):
    """Every observed token, and the features that came with them."""

    def __init__(self, request: DraftRequest, tokens: Sequence[int] = ()) -> None:
        self.request = request
        self.tokens = list(tokens)
        self.features: list[Features] = []
        self.is_over = False

    @property
    def num_observed(self) -> int:
        return len(self.tokens)

    def fork(self) -> ScriptState:
        return ScriptState(self.request, self.tokens)

    def truncate(self, length: int) -> None:
        del self.tokens[length:]

    def export(self) -> dict[str, Any]:
        return {"tokens": list(self.tokens)}


class ScriptedDrafter(Drafter[ScriptState]):
    """Drafts what ``script(state, limit)`` says; counts what it was told."""

    info: ClassVar[MethodInfo] = MethodInfo(
        "scripted", Dependency.NONE, Borrows.NOTHING, Weights.NONE, "for tests", True, 64, (1, 3, 7, 15)
    )

    def __init__(self, script: Callable[[ScriptState, DraftLimit], Draft], *, taps: frozenset[Tap] = frozenset()):
        self._script = script
        self._taps = taps
        self.states: list[ScriptState] = []

    @property
    def taps(self) -> frozenset[Tap]:
        return self._taps

    def begin(self, request: DraftRequest) -> ScriptState:
        self.states.append(ScriptState(request))
        return self.states[-1]

    def propose(self, states: Sequence[ScriptState], limits: Sequence[DraftLimit]) -> list[Draft]:
        return [self._script(state, limit) for state, limit in zip(states, limits, strict=True)]

    def observe(self, state: ScriptState, committed: Sequence[int], features: Features | None) -> None:
        assert not state.is_over, "observed after its end"
        state.tokens += committed
        if features is not None:
            state.features.append(features)

    def end(self, state: ScriptState) -> None:
        assert not state.is_over, "ended twice"
        state.is_over = True

    def restore(self, request: DraftRequest, exported: dict[str, Any]) -> ScriptState:
        return ScriptState(request, exported["tokens"])


def _continuation(texts: Texts, state: ScriptState, num_tokens: int) -> list[int]:
    text = texts[state.request.prompt, state.request.sampler.choice]
    start = state.num_observed - len(state.request.prompt)
    return list(text[start : start + num_tokens])


def _chance(state: ScriptState, index: int) -> float:
    key = repr((state.request.prompt, state.num_observed, index)).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:4], "little") / 2**32


def oracle(texts: Texts) -> ScriptedDrafter:
    """Always right."""
    return ScriptedDrafter(lambda state, limit: Draft.chain(_continuation(texts, state, limit.num_tokens)))


def wrong(texts: Texts, vocab_size: int) -> ScriptedDrafter:
    """Never right."""
    return ScriptedDrafter(
        lambda state, limit: Draft.chain(
            [(token + 1) % vocab_size for token in _continuation(texts, state, limit.num_tokens)]
        )
    )


def half_right(texts: Texts, vocab_size: int, share: float = 0.5) -> ScriptedDrafter:
    """Each token is right with probability ``share``, by a hash of where it stands."""

    def script(state: ScriptState, limit: DraftLimit) -> Draft:
        truth = _continuation(texts, state, limit.num_tokens)
        return Draft.chain(
            [token if _chance(state, index) < share else (token + 1) % vocab_size for index, token in enumerate(truth)]
        )

    return ScriptedDrafter(script)


def empty() -> ScriptedDrafter:
    """Never drafts."""
    return ScriptedDrafter(lambda state, limit: Draft())


def bushy(texts: Texts, vocab_size: int) -> ScriptedDrafter:
    """Trees whose right path, right with probability 0.8 a step, is hidden among wrong siblings in varying order."""

    def script(state: ScriptState, limit: DraftLimit) -> Draft:
        tokens: list[int] = []
        parents: list[int] = []
        parent = 0
        for index, token in enumerate(_continuation(texts, state, limit.num_tokens)):
            siblings = [(token + 2) % vocab_size, token if _chance(state, index) < 0.8 else (token + 1) % vocab_size]
            if _chance(state, 100 + index) < 0.5:
                siblings.reverse()
            room = limit.num_rows - len(tokens)
            next_parent = None
            for sibling in siblings[: min(room, 2)]:
                tokens.append(sibling)
                parents.append(parent)
                if sibling == token:
                    next_parent = len(tokens)
            if next_parent is None:
                break
            parent = next_parent
        return Draft(tuple(tokens), tuple(parents))

    return ScriptedDrafter(script)


FINAL_TAP = Tap(TapKind.AFTER_FINAL_NORM)


def with_taps(drafter: ScriptedDrafter) -> ScriptedDrafter:
    """The same drafter, asking for a state of the target."""
    return ScriptedDrafter(drafter._script, taps=frozenset({FINAL_TAP}))
