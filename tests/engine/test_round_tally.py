"""The tally of a request is the sum of its rounds."""

from hypothesis import given
from hypothesis import strategies as st

from forerun.engine.round_tally import RoundTally
from forerun.types import Draft, RoundCounts


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Draft, int, int]:
    parents = [draw(st.integers(0, row)) for row in range(draw(st.integers(0, 6)))]
    draft = Draft(tuple(range(len(parents))), tuple(parents))
    accepted = draw(st.integers(0, max(draft.depths())))
    return draft, accepted, draw(st.integers(0, accepted + 1))


@given(st.lists(rounds(), max_size=12))
def test_tally_is_the_sum_of_its_rounds(played: list[tuple[Draft, int, int]]) -> None:
    tally = RoundTally()
    expected = RoundCounts()
    for draft, accepted, emitted in played:
        tally.add(len(draft), draft.depth, accepted, emitted)
        expected += RoundCounts.of_round(draft, accepted, emitted)
        assert draft.depth == max(draft.depths())
    assert tally.counts() == expected
