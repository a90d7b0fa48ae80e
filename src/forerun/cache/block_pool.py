"""A fixed set of blocks with reference counts, and an index from content to block."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from forerun.models.kv_store import RecurrentState


class PoolExhaustedError(Exception):
    """No block is free: the caller waits, admits less, or is told how large the pool must be."""


@dataclass(slots=True)
class _Block:
    num_references: int = 0
    key: bytes | None = None
    checkpoint: RecurrentState | None = None


@dataclass(slots=True)
class BlockPool:
    """Hands out block ids, counts who holds them, and finds a block again by the content it was published under.

    A published block that nobody holds stays findable until its space is needed, oldest release first.
    """

    num_blocks: int
    _blocks: list[_Block] = field(init=False)
    _unused: list[int] = field(init=False)
    _idle: OrderedDict[int, None] = field(init=False, default_factory=OrderedDict)
    _by_key: dict[bytes, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._blocks = [_Block() for _ in range(self.num_blocks)]
        self._unused = list(range(self.num_blocks - 1, -1, -1))

    @property
    def num_available(self) -> int:
        """Blocks that can be allocated now; findable idle ones are counted, since they give way."""
        return len(self._unused) + len(self._idle)

    @property
    def num_held(self) -> int:
        """Blocks that at least one sequence holds."""
        return self.num_blocks - self.num_available

    def allocate(self) -> int:
        """A block held once by the caller. Raises ``PoolExhaustedError`` when every block is held."""
        if self._unused:
            block = self._unused.pop()
        elif self._idle:
            block, _ = self._idle.popitem(last=False)
            self.unpublish(block)
        else:
            raise PoolExhaustedError(f"all {self.num_blocks} blocks are held")
        self._blocks[block].num_references = 1
        return block

    def retain(self, block: int) -> None:
        """One more holder."""
        self._idle.pop(block, None)
        self._blocks[block].num_references += 1

    def release(self, block: int) -> None:
        """One holder less; without holders the block is idle if it can be found again, else unused."""
        entry = self._blocks[block]
        assert entry.num_references > 0, f"block {block} released more often than held"
        entry.num_references -= 1
        if entry.num_references:
            return
        if entry.key is None:
            self._unused.append(block)
        else:
            self._idle[block] = None

    def is_shared(self, block: int) -> bool:
        """Whether writing to the block would be seen by another holder."""
        return self._blocks[block].num_references > 1

    def publish(self, block: int, key: bytes, checkpoint: RecurrentState | None = None) -> None:
        """Make a full block findable. The first block published under a key keeps it; a checkpoint is added to it."""
        holder = self._by_key.setdefault(key, block)
        if checkpoint is not None:
            self._blocks[holder].checkpoint = checkpoint
        if holder == block:
            self._blocks[block].key = key

    def unpublish(self, block: int) -> None:
        """Forget a block's content, before it is written again."""
        entry = self._blocks[block]
        if entry.key is not None:
            del self._by_key[entry.key]
        entry.key = None
        entry.checkpoint = None

    def find(self, key: bytes) -> int | None:
        """The block published under ``key``, if its space was not needed since."""
        return self._by_key.get(key)

    def checkpoint_of(self, block: int) -> RecurrentState | None:
        """The recurrent state after this block's last token, if one was stored with it."""
        return self._blocks[block].checkpoint

    def forget_idle(self) -> None:
        """Drop everything that nobody holds: an empty prefix cache."""
        for block in self._idle:
            self.unpublish(block)
            self._unused.append(block)
        self._idle.clear()
