"""Rows are cut where they stop paying, by the same rule every time, and the text never notices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.engine.drafting import Drafting
from forerun.engine.engine import Engine
from forerun.engine.row_limits import RowLimits
from forerun.engine.trimming import leveled
from forerun.errors import ForerunError
from forerun.models.base import PassInput, PassOutput
from forerun.models.kv_store import KVStore
from forerun.sampling.params import SamplingParams
from support import scripted_drafters as scripted
from support.pass_costs import costs_of, streaming, tiles_of_16
from support.toy_target import ToyTarget

VOCAB = 13
PROMPTS = [[1, 2, 3], [4] * 90, [5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [2]]
PARAMS = SamplingParams(max_tokens=30, ignore_eos=True)


class WatchedToy(ToyTarget):
    """Remembers the rows of each pass."""

    def __init__(self, **fields: bool) -> None:
        super().__init__(VOCAB, **fields)
        self.rows: list[int] = []

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset = frozenset()) -> PassOutput:
        self.rows.append(len(batch.tokens))
        return super().forward(batch, store, taps)


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [(3, 3), (15, 15), (16, 15), (17, 15), (23, 15), (31, 15), (0, 0), (1, 1)],
)
def test_drafts_end_before_a_tile_that_does_not_pay(wanted: int, kept: int) -> None:
    # 16 rows bring 1 + 15/2 = 8.5 tokens a tile; 32 rows bring 16.5 for two.
    assert RowLimits(costs_of(tiles_of_16)).draft_rows(1, 1, wanted, 100) == kept


def test_a_cheap_step_is_taken_and_a_dear_one_is_not() -> None:
    def step_of(share: float) -> RowLimits:
        return RowLimits(costs_of(lambda rows: 0.01 * (1 + share * (rows > 16))))

    # Row 17 brings 9 tokens instead of 8.5, which is 6 % more.
    assert step_of(0.05).draft_rows(1, 1, 16, 0) == 16
    assert step_of(0.10).draft_rows(1, 1, 16, 0) == 15
    assert step_of(0.10).draft_rows(1, 1, 20, 0) == 20
    assert step_of(0.30).draft_rows(1, 1, 18, 0) == 15
    assert step_of(0.30).draft_rows(1, 1, 31, 0) == 31


def test_each_sequence_keeps_one_row_however_dear() -> None:
    limits = RowLimits(costs_of(lambda rows: 0.01 * rows))
    assert limits.draft_rows(1, 1, 7, 0) == 1
    assert limits.draft_rows(4, 4, 28, 0) == 4
    assert limits.draft_rows(4, 4, 2, 0) == 2
    assert RowLimits(costs_of(streaming)).draft_rows(1, 1, 15, 0) == 15


def test_a_batch_stays_on_its_shelf() -> None:
    # Eight sequences: 16 rows bring 12 tokens a tile, 64 rows 36 for four, 24 rows 16 for two.
    limits = RowLimits(costs_of(tiles_of_16))
    assert limits.draft_rows(8, 8, 56, 0) == 8
    assert limits.draft_rows(8, 8, 16, 0) == 8
    assert RowLimits(costs_of(tiles_of_16), draft_row_yield=1.0).draft_rows(8, 8, 56, 0) == 56


def test_prefill_takes_the_fastest_rows_under_the_bound() -> None:
    costs = costs_of(tiles_of_16, lambda rows: 0.02 + 0.001 * rows)
    assert RowLimits(costs).prefill_rows(0, 512, 0) == 256
    assert RowLimits(costs, max_pass_seconds=0.15).prefill_rows(0, 512, 0) == 128
    assert RowLimits(costs, max_pass_seconds=0.001).prefill_rows(0, 512, 0) == 16
    assert RowLimits(costs).prefill_rows(0, 200, 0) == 192
    steep = costs_of(tiles_of_16, lambda rows: 0.002 + 0.001 * rows)
    assert RowLimits(steep).prefill_rows(0, 200, 0) == 96, "192 rows are 1 % faster, which no clock can tell"
    assert RowLimits(costs).prefill_rows(0, 9, 0) == 9, "what is left of the budget may be less than any slice"


def test_prefill_fills_the_pass_that_decodes() -> None:
    limits = RowLimits(costs_of(tiles_of_16), max_pass_seconds=0.03)
    assert limits.prefill_rows(5, 200, 0) == 27
    assert limits.prefill_rows(17, 200, 0) == 15
    assert limits.prefill_rows(40, 200, 0) == 24, "none keeps the bound, so the fewest"


def test_flat_prefill_takes_no_more_than_it_needs() -> None:
    assert RowLimits(costs_of(lambda rows: 0.001 * rows)).prefill_rows(0, 512, 0) == 16


@given(
    st.lists(st.floats(0.001, 1), min_size=14, max_size=14),
    st.integers(1, 8), st.integers(0, 60), st.integers(0, 4000),
)  # fmt: skip
def test_any_curve_gives_the_same_choice_twice_and_keeps_its_bounds(
    seconds: list[float], num_sequences: int, num_wanted: int, context: int
) -> None:
    def curve(rows: int) -> float:
        return sum(seconds[: 1 + rows % 13])

    kept = [RowLimits(costs_of(curve)).draft_rows(num_sequences, num_sequences, num_wanted, context) for _ in range(2)]
    assert kept[0] == kept[1]
    assert min(num_sequences, num_wanted) <= kept[0] <= num_wanted
    assert 1 <= RowLimits(costs_of(curve)).prefill_rows(num_sequences, 1 + num_wanted, context) <= 1 + num_wanted


@pytest.mark.parametrize(
    ("lengths", "total", "expected"),
    [([5, 1, 3], 9, [5, 1, 3]), ([5, 1, 3], 7, [3, 1, 3]), ([5, 1, 3], 4, [2, 1, 1]), ([2, 2], 3, [2, 1]), ([], 3, [])],
)
def test_the_longest_drafts_are_cut_first(lengths: list[int], total: int, expected: list[int]) -> None:
    assert leveled(lengths, total) == expected


def test_numbers_that_allow_no_pass_are_refused() -> None:
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ForerunError, match="more than 0 seconds"):
            RowLimits(costs_of(tiles_of_16), max_pass_seconds=seconds)
    with pytest.raises(ForerunError, match="yield"):
        RowLimits(costs_of(tiles_of_16), draft_row_yield=0.0)
    with pytest.raises(ForerunError, match="prefill_rows of 1 or more"):
        Engine(ToyTarget(VOCAB), prefill_rows=0)


def test_the_choice_is_described_in_the_conditions_words() -> None:
    assert RowLimits(costs_of(tiles_of_16)).describe(256) == (
        "prefill 16 rows a pass (at most 0.5 s), drafts cut at 16 rows"
    )
    assert RowLimits(costs_of(lambda rows: 0.01)).describe(256) == (
        "prefill 256 rows a pass (at most 0.5 s), no cliff that cuts a draft"
    )


CURVES = {"tiles": tiles_of_16, "streaming": streaming, "linear": lambda rows: 0.01 * rows}


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())
@pytest.mark.parametrize("kind", ["oracle", "half", "bushy"])
@pytest.mark.parametrize("is_recurrent", [False, True], ids=["attention", "recurrent"])
def test_the_text_does_not_depend_on_the_limits(curve, kind: str, is_recurrent: bool) -> None:
    if is_recurrent and kind == "bushy":
        pytest.skip("recurrent targets take chains only")
    completions = Engine(ToyTarget(VOCAB)).generate(PROMPTS, PARAMS)
    texts = {(tuple(prompt), 0): one.token_ids for prompt, one in zip(PROMPTS, completions, strict=True)}
    makers = {"oracle": lambda: scripted.oracle(texts), "half": lambda: scripted.half_right(texts, VOCAB),
              "bushy": lambda: scripted.bushy(texts, VOCAB)}  # fmt: skip
    for n in (3, 15):
        drafter = makers[kind]()
        engine = Engine(
            WatchedToy(is_recurrent=is_recurrent), Drafting("scripted", n, is_tree=kind == "bushy"), drafter=drafter,
            limits=RowLimits(costs_of(curve), max_pass_seconds=0.05),
        )  # fmt: skip
        assert [one.token_ids for one in engine.generate(PROMPTS, PARAMS)] == list(texts.values())
        assert engine.cache.pool.num_held == 0


@pytest.mark.parametrize("method", ["ngram", "draft_model"])
def test_passes_keep_to_the_shelf_whether_drafts_are_cut_before_or_after(method: str) -> None:
    def rows_of(limits: RowLimits | None) -> list[int]:
        target = WatchedToy()
        target._order = 1
        draft_model = None
        if method == "draft_model":
            from support.toy_backend import loaded

            draft_model = loaded(ToyTarget(VOCAB, order=1))
            engine = Engine(loaded(target), Drafting(method, 20), draft_model=draft_model, limits=limits)
        else:
            engine = Engine(target, Drafting(method, 20, knobs={"occurrence": "earliest"}), limits=limits)
        engine.generate([[1, 2, 3]], SamplingParams(max_tokens=200, ignore_eos=True))
        return target.rows

    assert max(rows_of(None)) == 21
    limited = rows_of(RowLimits(costs_of(tiles_of_16)))
    assert max(limited) == 16
    assert limited.count(16) > 3


def test_prompts_are_read_in_chosen_slices() -> None:
    target = WatchedToy()
    limits = RowLimits(costs_of(tiles_of_16), max_pass_seconds=0.02)
    Engine(target, limits=limits).generate([[1] * 90], SamplingParams(max_tokens=2, ignore_eos=True))
    assert target.rows == [16, 16, 16, 16, 16, 10, 1]
    target = WatchedToy()
    Engine(target, prefill_rows=40).generate([[1] * 90], SamplingParams(max_tokens=2, ignore_eos=True))
    assert target.rows == [40, 40, 10, 1]
