"""Which slots a sequence owns, and the one open window in which it speculates."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(slots=True, eq=False)
class Sequence:
    """A block table and how many positions of it hold computed state. Changed by ``PagedCache`` alone."""

    id: int
    namespace: str = ""
    blocks: list[int] = field(default_factory=list)
    num_computed: int = 0
    keys: list[bytes] = field(default_factory=list)
    window: Window | None = None
    is_freed: bool = False


@dataclass(slots=True, eq=False)
class Window:
    """Slots [rows] handed out for one pass beyond ``start``, to be closed exactly once: the pending rollback.

    ``prefix_slots`` [start] are the slots of the computed positions, in position order.
    """

    sequence: Sequence
    start: int
    slots: Tensor
    prefix_slots: Tensor
    is_open: bool = True
