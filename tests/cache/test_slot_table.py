"""A kept table gives the slots that the blocks say, whatever was asked, cut or swapped before."""

from hypothesis import given
from hypothesis import strategies as st

from forerun.cache.slot_table import SlotTable

SIZE = 4


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 99), min_size=1, max_size=6)), max_size=12))
def test_table_follows_its_blocks(changes: list[tuple[int, list[int]]]) -> None:
    table = SlotTable(SIZE)
    blocks: list[int] = []
    for first, fresh in changes:
        first = min(first, len(blocks))
        blocks[first:] = fresh
        table.forget(first)
        for length in (len(blocks) * SIZE, first * SIZE + 1, 0):
            expected = [blocks[at // SIZE] * SIZE + at % SIZE for at in range(length)]
            assert table.of(blocks, length).tolist() == expected
            assert table.of(blocks, length, length // 2).tolist() == expected[length // 2 :]


def test_growing_leaves_earlier_views_alone() -> None:
    table = SlotTable(SIZE)
    early = table.of([7], 3)
    table.of(list(range(50)), 200)
    assert early.tolist() == [28, 29, 30]
