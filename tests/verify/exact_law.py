"""Exact laws by walking every branch of the shipped code: toy models, toy drafters and the comparison itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from forerun.types import Draft
from forerun.verify.base import Law
from forerun.verify.chance import Chance
from forerun.verify.verdict import Verdict

Result = TypeVar("Result")
Prefix = tuple[int, ...]
DraftProgram = Callable[[Chance], Draft]
Verify = Callable[[Draft, Law, Chance], Verdict]
Children = Callable[[Tensor, int, Chance], Prefix]
"""(q, count, chance) to the tokens of a node's children."""


class WalkedChance(Chance):
    """Takes the branches of a script, then the first possible one each time; remembers what else was possible."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script = script
        self.weight = 1.0
        self.taken: list[int] = []
        self.options: list[list[int]] = []

    def _choose(self, probabilities: Sequence[float]) -> int:
        options = [index for index, probability in enumerate(probabilities) if probability > 0.0]
        step = len(self.taken)
        chosen = self.script[step] if step < len(self.script) else options[0]
        self.taken.append(chosen)
        self.options.append(options)
        self.weight *= probabilities[chosen]
        return chosen

    def happens(self, probability: float) -> bool:
        assert 0.0 <= probability <= 1.0
        return self._choose([probability, 1.0 - probability]) == 0

    def draw(self, row: Tensor) -> int:
        assert abs(float(row.sum()) - 1.0) < 1e-12
        return self._choose(row.tolist())


def outcomes(program: Callable[[Chance], Result]) -> Iterator[tuple[Result, float]]:
    """Every result of a program of chance with its probability, one entry per branch."""
    scripts: list[list[int]] = [[]]
    while scripts:
        script = scripts.pop()
        chance = WalkedChance(script)
        yield program(chance), chance.weight
        for step in range(len(script), len(chance.taken)):
            scripts += [[*chance.taken[:step], other] for other in chance.options[step] if other != chance.taken[step]]


class ToyModel:
    """A next-token law per prefix: random rows, some entries exactly 0, different at every prefix."""

    def __init__(self, seed: int, vocab_size: int, *, share_of_zeros: float = 0.15, concentration: float = 0.7) -> None:
        self.seed = seed
        self.vocab_size = vocab_size
        self.share_of_zeros = share_of_zeros
        self.concentration = concentration
        self._rows: dict[Prefix, Tensor] = {}

    def row(self, prefix: Prefix) -> Tensor:
        if prefix not in self._rows:
            random = np.random.default_rng([self.seed, *(token + 1 for token in prefix)])
            row = random.dirichlet(np.full(self.vocab_size, self.concentration))
            row[(random.random(self.vocab_size) < self.share_of_zeros) & (row < row.max())] = 0.0
            self._rows[prefix] = torch.from_numpy(row / row.sum())
        return self._rows[prefix]

    def probability(self, text: Prefix, after: Prefix = ()) -> float:
        return float(np.prod([float(self.row(text[:i])[text[i]]) for i in range(len(after), len(text))]))


class FixedModel(ToyModel):
    """The same row at every prefix."""

    def __init__(self, row: Sequence[float]) -> None:
        super().__init__(0, len(row))
        self._row = torch.tensor(row, dtype=torch.float64)

    def row(self, prefix: Prefix) -> Tensor:
        return self._row


def sampled_chain(
    drafter: ToyModel, length: int, *, stops_before: Callable[[Tensor], bool] = lambda q: False
) -> DraftProgram:
    """A chain drawn from the drafter; ``stops_before`` may end it, told q alone before the token is drawn."""

    def draft(chance: Chance) -> Draft:
        tokens: Prefix = ()
        rows: list[Tensor] = []
        while len(tokens) < length and not stops_before(drafter.row(tokens)):
            rows.append(drafter.row(tokens))
            tokens = (*tokens, chance.draw(rows[-1]))
        return Draft(tokens, tuple(range(len(tokens))), q=torch.stack(rows) if rows else None)

    return draft


def greedy_chain(drafter: ToyModel, length: int) -> DraftProgram:
    """The drafter's argmax chain, without q."""

    def draft(chance: Chance) -> Draft:
        tokens: Prefix = ()
        for _ in range(length):
            tokens = (*tokens, int(drafter.row(tokens).argmax()))
        return Draft.chain(tokens)

    return draft


def independent_children(q: Tensor, count: int, chance: Chance) -> Prefix:
    return tuple(chance.draw(q) for _ in range(count))


def distinct_children(q: Tensor, count: int, chance: Chance) -> Prefix:
    tokens: list[int] = []
    left = q.clone()
    while len(tokens) < count and left.sum() > 0.0:
        tokens.append(chance.draw(left / left.sum()))
        left[tokens[-1]] = 0.0
    return tuple(tokens)


def best_children(q: Tensor, count: int, chance: Chance) -> Prefix:
    return tuple(q.argsort(descending=True, stable=True)[:count].tolist())


def tree(drafter: ToyModel, widths: Sequence[int], children_of: Children) -> DraftProgram:
    """A tree with ``widths[d]`` children below every node of depth d, breadth first."""

    def draft(chance: Chance) -> Draft:
        tokens: list[int] = []
        parents: list[int] = []
        rows: list[Tensor] = []
        level: list[tuple[int, Prefix]] = [(0, ())]
        for width in widths:
            below: list[tuple[int, Prefix]] = []
            for row, path in level:
                q = drafter.row(path)
                for token in children_of(q, width, chance):
                    tokens.append(token)
                    parents.append(row)
                    rows.append(q)
                    below.append((len(tokens), (*path, token)))
            level = below
        return Draft(tuple(tokens), tuple(parents), q=torch.stack(rows))

    return draft


def text_law(target: ToyModel, draft_program: DraftProgram, verify: Verify, length: int) -> dict[Prefix, float]:
    """The law of the first ``length`` tokens: one round, then the target alone."""

    def round_of(chance: Chance) -> Prefix:
        return verify(draft_program(chance), lambda row, path: target.row(path), chance).tokens

    law = dict.fromkeys(itertools.product(range(target.vocab_size), repeat=length), 0.0)
    for committed, weight in outcomes(round_of):
        known = committed[:length]
        for rest in itertools.product(range(target.vocab_size), repeat=length - len(known)):
            law[known + rest] += weight * target.probability(known + rest, known)
    return law


def assert_lossless(target: ToyModel, draft_program: DraftProgram, verify: Verify, length: int) -> None:
    """The text's law is the target's to 1e-12."""
    law = text_law(target, draft_program, verify, length)
    error = max(abs(probability - target.probability(text)) for text, probability in law.items())
    assert error < 1e-12, f"the law is off by {error:.3g}"


def expected_length(target: ToyModel, draft_program: DraftProgram, verify: Verify) -> float:
    """Tokens committed a round, on average."""
    return sum(
        weight * len(tokens)
        for tokens, weight in outcomes(
            lambda chance: verify(draft_program(chance), lambda row, path: target.row(path), chance).tokens
        )
    )
