"""The inflation guard: tiled text is caught, ordinary text and lists of records are not."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.workloads.repetition import MIN_LOOP_ITEMS, find_loop, repeated_ngrams, score_text, score_tokens

PROSE = (
    "The ferry left at six with nine passengers and a crate of hens. Nobody spoke until the lighthouse came into view, "
    "and then the captain's daughter began to name the rocks: the Anvil, the Two Sisters, the Drowned Cow. Her father "
    "had taught her the names so that she would know what had sunk each neighbour, and when. By the time the island's "
    "only street lamp could be seen, everyone on deck had learned four of them by heart."
)


def test_hand_counted_ngrams() -> None:
    # 4-grams of 1..4 tiled three times: 9 in all, 4 distinct.
    assert repeated_ngrams([1, 2, 3, 4] * 3) == 1 - 4 / 9
    assert repeated_ngrams([1, 2, 3]) == 0.0
    assert repeated_ngrams(range(100)) == 0.0


def test_ordinary_prose_scores_low() -> None:
    score = score_text(PROSE)
    assert score.repeated_ngrams < 0.05
    assert score.compressibility < 0.6
    assert not score.is_looping


def test_a_loop_after_ordinary_text_is_found_with_its_period() -> None:
    score = score_text(PROSE + " and so it went on" * 40)
    assert score.loop is not None
    assert score.loop.period == 5
    assert score.loop.num_repeats >= 39


def test_a_loop_that_ends_in_a_closing_mark_is_found() -> None:
    tokens = [*range(30), *[7, 8, 9] * 30, 2]
    loop = find_loop(tokens)
    assert loop is not None
    assert (loop.period, loop.num_items) == (3, 90)


def test_a_list_of_similar_records_is_no_loop_unless_it_is_one() -> None:
    records = [{"id": n, "sku": f"A{n * 37 % 91}", "in_stock": True, "price": n * 7 % 13} for n in range(40)]
    assert not score_text(json.dumps(records)).is_looping
    assert score_text(json.dumps(records)).repeated_ngrams > 0.3
    assert score_text(json.dumps([records[0]] * 40)).is_looping


def test_counting_is_no_loop_and_a_short_refrain_is_none() -> None:
    assert not score_text(" ".join(f"{n} green bottles" for n in range(60))).is_looping
    assert not score_text("no no no no no").is_looping
    assert not score_text(PROSE + " ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha").is_looping


def test_chinese_is_scored_by_ideograph() -> None:
    assert score_text("今天天气很好" * 10).is_looping
    assert not score_text("春天的早晨，小镇上的人们很早就起来打扫街道，孩子们背着书包去上学。").is_looping


def test_nothing_scores_nothing() -> None:
    for score in (score_text(""), score_tokens([])):
        assert (score.num_items, score.repeated_ngrams, score.compressibility, score.loop) == (0, 0.0, 0.0, None)


@settings(max_examples=100, deadline=None)
@given(unit=st.lists(st.integers(0, 50_000), min_size=1, max_size=40), cut=st.integers(0, 39))
def test_every_tiled_text_flags(unit: list[int], cut: int) -> None:
    tiled = unit * max(5, 1 + MIN_LOOP_ITEMS // len(unit)) + unit[: cut % len(unit)]
    score = score_tokens(tiled)
    assert score.loop is not None
    assert len(unit) % score.loop.period == 0
    assert score.loop.num_items == len(tiled)


@settings(max_examples=100, deadline=None)
@given(tokens=st.lists(st.integers(0, 50_000), min_size=4, max_size=300, unique=True))
def test_distinct_tokens_never_flag(tokens: list[int]) -> None:
    score = score_tokens(tokens)
    assert score.repeated_ngrams == 0.0
    assert score.loop is None


@settings(max_examples=200, deadline=None)
@given(tokens=st.lists(st.integers(0, 2), max_size=60))
def test_a_found_loop_is_periodic_and_near_the_end(tokens: list[int]) -> None:
    loop = find_loop(tokens)
    if loop is None:
        return
    ends = range(len(tokens) - 8, len(tokens) + 1)
    tails = [tokens[end - loop.num_items : end] for end in ends if end >= loop.num_items]
    assert any(all(a == b for a, b in zip(tail, tail[loop.period :])) for tail in tails)
    assert loop.num_repeats >= 4
    assert loop.num_items >= max(16, 0.3 * len(tokens))
