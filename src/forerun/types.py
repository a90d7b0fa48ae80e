"""The shared vocabulary: what a drafter proposes, what a round counts, which states of the target can be tapped.

Words are used as in docs/contract.md. Row 0 of a verified block is the anchor (the newest committed token, not yet
processed by the target); row i + 1 is drafted token i.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Dependency(enum.Enum):
    """How much serial dependency remains among the candidates of one draft."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    PARALLEL_CORRECTED = "parallel + correction"
    NONE = "none"


class Borrows(enum.Enum):
    """What a method takes from the target besides its tokens."""

    NOTHING = "nothing"
    LAST_HIDDEN = "last hidden"
    SEVERAL_HIDDENS = "several hiddens"
    TARGET_KV = "target KV"
    INJECTED_KV = "injected KV"


class Weights(enum.Enum):
    """Where a method's weights live."""

    IN_TARGET = "in the target"
    SEPARATE = "separate"
    NONE = "none"


class TapKind(enum.Enum):
    """Which state of the target is read out."""

    BLOCK = "block"
    BEFORE_FINAL_NORM = "before final norm"
    AFTER_FINAL_NORM = "after final norm"


@dataclass(frozen=True, slots=True)
class Tap:
    """One readable state of the target: the output of block ``block`` (0-based), or the final hidden state.

    Block ids count blocks, not the entries of a Hugging Face ``hidden_states`` tuple (which are one higher).
    """

    kind: TapKind
    block: int = -1

    @classmethod
    def of_block(cls, block: int) -> Tap:
        """The residual stream after block ``block``."""
        return cls(TapKind.BLOCK, block)


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens and, for each, the row of its parent: 0 is the anchor, k is token k - 1 of this draft.

    A chain is the tree whose parents are 0, 1, 2, ... Parents precede their children. ``q`` are the rows that the
    tokens were sampled from, [len, vocabulary], where a classical rule needs them; ``survival`` estimates per token
    the chance that it is committed; ``source`` names where the tokens came from.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    q: Tensor | None = field(default=None, compare=False)
    survival: tuple[float, ...] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError(f"{len(self.tokens)} tokens but {len(self.parents)} parents")
        if any(not 0 <= parent <= row for row, parent in enumerate(self.parents)):
            raise ValueError(f"a parent must be an earlier row, found parents {self.parents}")

    @classmethod
    def chain(cls, tokens: Sequence[int], *, survival: Sequence[float] | None = None, source: str = "") -> Draft:
        """A draft without branches."""
        kept = None if survival is None else tuple(survival)
        return cls(tuple(tokens), tuple(range(len(tokens))), survival=kept, source=source)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether no row has two children."""
        return self.parents == tuple(range(len(self.parents)))

    @property
    def depth(self) -> int:
        """Tokens of the longest path."""
        return len(self) if self.is_chain else max(self.depths())

    def depths(self) -> tuple[int, ...]:
        """Depth of each row, the anchor's 0 first: len(self) + 1 entries."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    def children(self) -> list[list[int]]:
        """Child rows of each row, the anchor first."""
        children: list[list[int]] = [[] for _ in range(len(self) + 1)]
        for index, parent in enumerate(self.parents):
            children[parent].append(index + 1)
        return children

    def child(self, row: int, token: int) -> int | None:
        """The first child of ``row`` that is ``token``, if there is one."""
        for index in range(row, len(self.tokens)):  # parents precede their children
            if self.parents[index] == row and self.tokens[index] == token:
                return index + 1
        return None

    def path_to(self, row: int) -> tuple[int, ...]:
        """Rows from the anchor to ``row``, both included."""
        path = [row]
        while path[-1]:
            path.append(self.parents[path[-1] - 1])
        return tuple(reversed(path))

    def truncated(self, num_tokens: int) -> Draft:
        """The first ``num_tokens`` tokens; parents precede children, so this is a draft again."""
        if num_tokens >= len(self):
            return self
        return Draft(
            self.tokens[:num_tokens],
            self.parents[:num_tokens],
            None if self.q is None else self.q[:num_tokens],
            None if self.survival is None else self.survival[:num_tokens],
            self.source,
        )


@dataclass(frozen=True, slots=True)
class PositionCounts:
    """Raw counts for one draft position (for trees: one depth), over rounds.

    ``proposed``: the draft reached this position; ``reached``: it did and everything before was accepted;
    ``accepted``: this position was accepted too.
    """

    proposed: int = 0
    reached: int = 0
    accepted: int = 0

    def __add__(self, other: PositionCounts) -> PositionCounts:
        return PositionCounts(
            self.proposed + other.proposed, self.reached + other.reached, self.accepted + other.accepted
        )


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """Raw counts over rounds; ratios are computed in ``forerun.ratios`` alone.

    ``accepted`` counts drafted tokens that the target agreed with; ``emitted`` counts tokens given out in rounds after
    stop and length cuts. The prefill's token belongs to no round.
    """

    rounds: int = 0
    rounds_without_draft: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    positions: tuple[PositionCounts, ...] = ()

    def __add__(self, other: RoundCounts) -> RoundCounts:
        depth = max(len(self.positions), len(other.positions))
        nothing = PositionCounts()
        return RoundCounts(
            self.rounds + other.rounds,
            self.rounds_without_draft + other.rounds_without_draft,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
            self.emitted + other.emitted,
            tuple(
                (self.positions[i] if i < len(self.positions) else nothing)
                + (other.positions[i] if i < len(other.positions) else nothing)
                for i in range(depth)
            ),
        )

    @classmethod
    def of_round(cls, draft: Draft, num_accepted: int, num_emitted: int) -> RoundCounts:
        """Counts of one round: a draft, how many of its tokens were accepted, how many tokens were given out."""
        depth = draft.depth
        positions = tuple(PositionCounts(1, int(num_accepted >= i), int(num_accepted >= i + 1)) for i in range(depth))
        return cls(1, int(len(draft) == 0), len(draft), num_accepted, num_emitted, positions)


@dataclass(frozen=True, slots=True)
class Features:
    """Tapped target states for consecutive committed positions, handed to a drafter.

    ``first_position`` is the absolute position of the first row; each tensor is [rows, width]. Positions that a prefix
    hit skipped have no features: they are simply absent, and the drafter sees the gap from ``first_position``.
    """

    first_position: int
    states: dict[Tap, Tensor]


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds by phase: drafting, the target's passes, sampling and verification, everything else."""

    draft: float = 0.0
    verify: float = 0.0
    sample: float = 0.0
    other: float = 0.0

    def __add__(self, other: Timings) -> Timings:
        return Timings(
            self.draft + other.draft,
            self.verify + other.verify,
            self.sample + other.sample,
            self.other + other.other,
        )

    def divided(self, num_parts: int) -> Timings:
        """An even share of each phase."""
        return Timings(self.draft / num_parts, self.verify / num_parts, self.sample / num_parts, self.other / num_parts)

    @property
    def total(self) -> float:
        """Seconds in all phases together."""
        return self.draft + self.verify + self.sample + self.other
