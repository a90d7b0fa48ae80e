"""The noise is Philox's, has the law that argmax(log p + G) needs, and does not know its neighbours."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from forerun.sampling import noise as noise_module
from forerun.sampling.noise import LARGEST_NOISE, FloatRow, KeyedNoise, random_seed

# Every draw below is a function of fixed keys, so these tests don't flicker; a fair generator passes with room.
LEAST_P_VALUE = 1e-4
SEEDS = st.integers(0, 2**64 - 1)
Noise = Callable[[int, int, int, int], FloatRow]
"""(seed, choice, position, vocabulary) to a row of noise."""


def keyed(seed: int, choice: int, position: int, vocab_size: int) -> FloatRow:
    return KeyedNoise(seed, choice).row(position, vocab_size)


AXES: dict[str, Callable[[int], tuple[int, int, int]]] = {
    "seeds": lambda i: (1000 + i, 0, 17),
    "choices": lambda i: (7, i, 17),
    "positions": lambda i: (7, 0, i),
    "high seed bits": lambda i: (i << 40, 0, 17),
    "positions past 2^32": lambda i: (7, 0, 2**32 - 5 + i),
}


def philox4x64(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Philox4x64-10 on Python's integers, written from the paper's figure 3."""
    word = 2**64
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(c0 * 0xD2E7470EE14C6C93, word)
        high1, low1 = divmod(c2 * 0xCA5A826395121157, word)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) % word, (k1 + 0xBB67AE8584CAA73B) % word
    return [c0, c1, c2, c3]


def test_reference_gives_the_published_vector() -> None:
    expected = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert philox4x64((0, 0), (0, 0, 0, 0)) == expected


@given(SEEDS, st.integers(0, 2**20), st.integers(0, 2**40), st.integers(1, 23))
@settings(max_examples=30, deadline=None)
def test_row_is_philox_at_block_and_position(seed: int, choice: int, position: int, vocab_size: int) -> None:
    words = [philox4x64((seed, choice), (token // 4, position, 0, 0))[token % 4] for token in range(vocab_size)]
    uniform = (np.array(words, dtype=np.float64) + 0.5) / 2.0**64
    np.testing.assert_allclose(keyed(seed, choice, position, vocab_size), -np.log(-np.log1p(-uniform)), rtol=1e-12)


@given(
    SEEDS,
    st.integers(0, 2**33),
    st.sampled_from([8, 131, 5000, 40_000]).flatmap(
        lambda v: st.tuples(st.just(v), st.sets(st.integers(0, v - 1), min_size=1, max_size=60))
    ),
)
@settings(max_examples=60, deadline=None)
def test_noise_of_a_subset_is_that_slice_of_the_row(seed: int, position: int, rows: tuple[int, set[int]]) -> None:
    vocab_size, chosen = rows
    ids = np.array(sorted(chosen))
    noise = KeyedNoise(seed, 3)
    np.testing.assert_array_equal(noise.at(position, ids), noise.row(position, vocab_size)[ids])


@given(st.integers(0, 2**31), st.sampled_from([1, 2, 50, 20_000]), st.sampled_from([0.1, 1.0, 4.0, 40.0]), st.data())
@settings(max_examples=60, deadline=None)
def test_pruned_winners_are_those_of_the_full_row(seed: int, size: int, spread: float, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(size=size) * spread
    scores[random.random(size) < 0.2] = -np.inf
    scores[0] = 0.0
    scores -= scores.max()
    ids = np.sort(random.choice(4 * size, size, replace=False))
    noise = KeyedNoise(seed)
    count = data.draw(st.integers(1, 5))
    totals = scores + noise.at(9, ids)
    order = [i for i in np.argsort(-totals, kind="stable") if totals[i] > -np.inf]
    np.testing.assert_array_equal(noise.winners(scores, 9, ids, count), ids[order[:count]])


def test_extreme_words_stay_finite_and_bounded() -> None:
    words = np.array([0, 1, 2**63, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
    values = noise_module._gumbel(words)
    assert np.isfinite(values).all()
    assert values[0] == LARGEST_NOISE
    assert (np.diff(values) <= 0).all()
    assert values.min() == pytest.approx(-np.log(53 * np.log(2)))


def chi_squared(counts: np.ndarray, law: np.ndarray) -> float:
    """p-value of draws against a law; cells expected under five times are pooled, likeliest last."""
    expected = law * counts.sum()
    order = np.argsort(expected)
    small = np.cumsum(expected[order]) < 5
    cell = np.zeros(law.size, dtype=np.int64)
    cell[order[~small]] = np.arange((~small).sum())
    observed = np.bincount(cell, weights=counts)
    pooled = np.bincount(cell, weights=expected)
    return float(stats.chisquare(observed, pooled).pvalue)


def law_p_value(noise: Noise, law: np.ndarray, axis: str, num_draws: int, bins: np.ndarray | None = None) -> float:
    """p-value of argmax(log p + G) over consecutive keys of one axis, ids optionally binned."""
    scores = np.log(law)
    draws = [int((scores + noise(*AXES[axis](i), law.size)).argmax()) for i in range(num_draws)]
    bins = np.arange(law.size) if bins is None else bins
    return chi_squared(np.bincount(bins[draws], minlength=bins.max() + 1), np.bincount(bins, weights=law))


LAWS = {
    "uneven": np.array([0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.015, 0.005]),
    "even": np.full(8, 0.125),
    "one rare": np.array([0.994, 0.001, 0.001, 0.001, 0.001, 0.001, 0.0005, 0.0005]),
}


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("law", LAWS)
def test_law_of_a_small_vocabulary(law: str, axis: str) -> None:
    assert law_p_value(keyed, LAWS[law], axis, 6000) > LEAST_P_VALUE


def large_law(vocab_size: int = 150_000) -> tuple[np.ndarray, np.ndarray]:
    """A Zipf law with shuffled ids, and bins by rank: each of the first 20, then ever wider ones down to the tail."""
    weights = 1.0 / np.arange(1, vocab_size + 1) ** 1.05
    edges = np.unique(np.concatenate([np.arange(20), np.geomspace(20, vocab_size, 30).astype(int)]))
    bins = np.searchsorted(edges, np.arange(vocab_size), side="right") - 1
    shuffled = np.random.default_rng(0).permutation(vocab_size)
    return (weights / weights.sum())[shuffled], bins[shuffled]


def keyed_winner_draws(law: np.ndarray, axis: str, num_draws: int) -> list[int]:
    scores, ids = np.log(law) - np.log(law).max(), np.arange(law.size)
    return [
        int(KeyedNoise(seed, choice).winners(scores, position, ids)[0])
        for seed, choice, position in map(AXES[axis], range(num_draws))
    ]


@pytest.mark.parametrize("axis", ["seeds", "choices", "positions"])
@pytest.mark.parametrize("num_draws", [1000, pytest.param(8000, marks=pytest.mark.slow)])
def test_law_of_a_large_vocabulary(axis: str, num_draws: int) -> None:
    law, bins = large_law()
    draws = keyed_winner_draws(law, axis, num_draws)
    counts = np.bincount(bins[draws], minlength=bins.max() + 1)
    assert chi_squared(counts, np.bincount(bins, weights=law)) > LEAST_P_VALUE


@pytest.mark.parametrize("axis", ["seeds", "choices", "positions"])
def test_constant_or_shared_noise_fails_the_law_test(axis: str) -> None:
    wrong: dict[str, Noise] = {
        "constant": lambda seed, choice, position, v: np.zeros(v),
        "shared": lambda seed, choice, position, v: keyed(1, 1, 1, v),
        "uniform instead of Gumbel": lambda seed, choice, position, v: np.exp(
            -np.exp(-keyed(seed, choice, position, v))
        ),
        "one value for all ids": lambda seed, choice, position, v: np.repeat(keyed(seed, choice, position, 1), v),
    }
    for name, noise in wrong.items():
        assert law_p_value(noise, LAWS["uneven"], axis, 1500) < LEAST_P_VALUE, name


def independence_p_value(first: FloatRow, second: FloatRow) -> float:
    """p-value of a 16 x 16 table of two noises' ranks: any dependence shows, not only a linear one."""
    cells = [np.minimum((np.exp(-np.exp(-row)) * 16).astype(int), 15) for row in (first, second)]
    counts = np.bincount(cells[0] * 16 + cells[1], minlength=256)
    return float(stats.chisquare(counts).pvalue)


NEIGHBOURS: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "seed": ((5, 0, 9), (6, 0, 9)),
    "top seed bit": ((5, 0, 9), (5 | 2**63, 0, 9)),
    "choice": ((5, 0, 9), (5, 1, 9)),
    "position": ((5, 0, 9), (5, 0, 10)),
    "far position": ((5, 0, 9), (5, 0, 9 + 2**32)),
    "seed against choice": ((5, 6, 9), (6, 5, 9)),
    "seed against position": ((5, 0, 6), (6, 0, 5)),
}


@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_neighbouring_keys_are_independent(pair: str) -> None:
    first, second = (keyed(*key, 150_000) for key in NEIGHBOURS[pair])
    assert independence_p_value(first, second) > LEAST_P_VALUE
    # 4 standard errors of a correlation of independent values.
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(first.size)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 1024])
def test_neighbouring_ids_are_independent(distance: int) -> None:
    row = keyed(5, 0, 9, 150_000)
    assert independence_p_value(row[:-distance], row[distance:]) > LEAST_P_VALUE


@pytest.mark.parametrize("axis", AXES)
def test_consecutive_keys_are_independent_at_one_id(axis: str) -> None:
    values = np.array([keyed(*AXES[axis](i), 4) for i in range(8000)])
    assert stats.kstest(values[:, 2], stats.gumbel_r.cdf).pvalue > LEAST_P_VALUE
    assert independence_p_value(values[:-1, 2], values[1:, 2]) > LEAST_P_VALUE
    assert independence_p_value(values[:-1, 2], values[1:, 3]) > LEAST_P_VALUE


def test_shared_noise_fails_the_independence_test() -> None:
    row = keyed(5, 0, 9, 20_000)
    assert independence_p_value(row, row) < LEAST_P_VALUE
    assert independence_p_value(row, row + 0.3 * keyed(6, 0, 9, 20_000)) < LEAST_P_VALUE


def test_noise_is_gumbel_to_the_tail() -> None:
    row = np.concatenate([keyed(seed, 0, 0, 150_000) for seed in range(4)])
    assert stats.kstest(row, stats.gumbel_r.cdf).pvalue > LEAST_P_VALUE
    # The largest of n Gumbel values, less log n, is Gumbel again.
    largest = np.array([keyed(seed, 0, 0, 20_000).max() for seed in range(1000)]) - np.log(20_000)
    assert stats.kstest(largest, stats.gumbel_r.cdf).pvalue > LEAST_P_VALUE


def test_random_seeds_use_all_bits() -> None:
    seeds = [random_seed() for _ in range(64)]
    assert len(set(seeds)) == 64
    assert max(seeds).bit_length() > 60
    with pytest.raises(ValueError, match="64-bit"):
        KeyedNoise(2**64)
