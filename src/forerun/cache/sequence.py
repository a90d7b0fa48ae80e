"""Which slots a sequence owns, and the one open window in which it speculates."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from forerun.cache.slot_table import SlotTable


@dataclass(slots=True, eq=False)
class Sequence:
    """A block table and how many positions of it hold computed state. Changed by ``PagedCache`` alone."""

    id: int
    table: SlotTable
    namespace: str = ""
    blocks: list[int] = field(default_factory=list)
    num_computed: int = 0
    keys: list[bytes] = field(default_factory=list)
    window: Window | None = None
    is_freed: bool = False


@dataclass(slots=True, eq=False)
class Window:
    """Slots handed out for one pass beyond ``start``, to be closed exactly once: the pending rollback.

    ``all_slots`` [start + rows] begin with those of the computed positions, in position order; ``slots`` [rows] are
    those of the pass's rows. Views of the sequence's table, all of them: they hold while the window is open.
    """

    sequence: Sequence
    start: int
    all_slots: Tensor
    slots: Tensor
    is_open: bool = True

    @property
    def prefix_slots(self) -> Tensor:
        """Slots of the computed positions, [start]."""
        return self.all_slots[: self.start]
