import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.norm.stats import CAPACITY, COLUMNS, RunningStats, Stats

RNG = np.random.default_rng(7)
MANY = 20_000
ORDERS = {
    "sorted": np.arange(MANY, dtype=float),
    "reversed": np.arange(MANY, 0, -1, dtype=float),
    "constant": np.full(MANY, 3.25),
    "normal": RNG.normal(size=MANY),
    "heavy tail": RNG.standard_cauchy(MANY),
    "alternating": np.where(np.arange(MANY) % 2, 1.0, -1.0) * np.arange(MANY),
    "two values": (np.arange(MANY) % 100 == 0).astype(float),
    "drifting": np.arange(MANY) + RNG.normal(size=MANY) * 50,
}


def taken_in(values, capacity=CAPACITY, block=100):
    running = RunningStats(capacity)
    for start in range(0, len(values), block):
        running.update(values[start : start + block])
    return running


def assert_within_stated_error(stats, values):
    """The figure called q01 lies between the true quantiles 0.01 - e and 0.01 + e, and q99 likewise."""
    error = stats.rank_error
    for share, figures in ((0.01, stats.q01), (0.99, stats.q99)):
        low = np.quantile(values, max(0.0, share - error), axis=0)
        high = np.quantile(values, min(1.0, share + error), axis=0)
        slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))  # np.quantile's own rounding
        assert (low - slack <= figures).all()
        assert (figures <= high + slack).all()


finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(1, 4)), elements=finite), st.integers(1, 70))
@settings(deadline=None)
def test_below_capacity_everything_is_exact(values, block):
    stats = taken_in(values, capacity=64, block=block).finish()
    np.testing.assert_allclose(stats.q01, np.quantile(values, 0.01, axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(stats.q99, np.quantile(values, 0.99, axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(stats.min, values.min(0))
    np.testing.assert_array_equal(stats.max, values.max(0))
    assert stats.rank_error == 0
    assert stats.count == len(values)


def test_exactly_at_capacity_is_still_exact_and_one_more_is_not():
    values = RNG.normal(size=(65, 1))
    assert taken_in(values[:64], capacity=64).finish().rank_error == 0
    assert taken_in(values, capacity=64).finish().rank_error > 0


@given(st.integers(1, 500), st.integers(1, 200), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_moments_and_extremes_are_exact_whatever_the_blocks(count, block, seed):
    values = np.random.default_rng(seed).normal(1000, 0.01, size=(count, 3))  # small spread far from 0
    stats = taken_in(values, capacity=16, block=block).finish()
    np.testing.assert_allclose(stats.mean, values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats.std, values.std(0), rtol=1e-7, atol=1e-12)
    np.testing.assert_array_equal(stats.min, values.min(0))
    np.testing.assert_array_equal(stats.max, values.max(0))


@pytest.mark.parametrize("capacity", [16, 200, 1001])
@pytest.mark.parametrize("order", ORDERS)
def test_beyond_capacity_the_true_rank_is_within_the_stated_error(order, capacity):
    values = ORDERS[order][:, None]
    stats = taken_in(values, capacity).finish()
    assert_within_stated_error(stats, values)
    assert 0 < stats.rank_error < 1.5 * np.log2(MANY / capacity) / capacity + 0.001


@given(st.integers(2, 40), st.integers(2, 12), st.integers(1, 90), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_the_stated_error_holds_for_any_sizes(capacity, times, block, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_cauchy((capacity * times + int(rng.integers(capacity)), 2))
    stats = taken_in(values, capacity, block).finish()
    assert stats.count == len(values)
    assert_within_stated_error(stats, values)


def hidden_by_halving(capacity, levels):
    """Zeros and ones in an order in which halving drops all zeros: an odd zero wherever the upper of a pair is kept."""
    keeps_upper, halvings = {}, 0
    for leaf in range(2 ** (levels - 1)):  # halvings come in the order of a binary counter's carries
        level, index, carry = 0, leaf, True
        while carry:
            keeps_upper[level, index] = halvings % 2
            halvings += 1
            carry = index % 2 == 1
            level, index = level + 1, index // 2

    def zeros(level, index, left):
        count = 2 * left + keeps_upper[level, index]
        if level == 0:
            return [count]
        return zeros(level - 1, 2 * index, count // 2) + zeros(level - 1, 2 * index + 1, count - count // 2)

    leaves = [np.arange(2 * capacity) >= count for count in zeros(levels - 1, 0, 0)]
    return np.concatenate(leaves).astype(float)[:, None]


def test_the_stated_error_holds_against_an_adversary_who_knows_the_halvings():
    values = hidden_by_halving(capacity=64, levels=10)
    stats = taken_in(values, capacity=64, block=64).finish()
    assert (values == 0).mean() > 0.03
    assert stats.q01 == (1.0,)  # three in a hundred are zeros, and not one of them was kept
    assert_within_stated_error(stats, values)


def test_every_dimension_has_its_own_quantiles():
    values = np.stack([ORDERS["sorted"], ORDERS["reversed"] * 10, ORDERS["constant"]], axis=1)
    stats = taken_in(values, capacity=200).finish()
    assert_within_stated_error(stats, values)
    assert stats.q01[2] == stats.q99[2] == 3.25


def test_an_error_that_is_small_enough_to_train_on_at_the_default_capacity():
    stats = taken_in(RNG.normal(size=(CAPACITY * 3, 1)), block=5000).finish()
    assert 0 < stats.rank_error < 0.0003


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_memory_stays_bounded(block):
    capacity = 64
    running = taken_in(RNG.normal(size=(50 * capacity, 2)), capacity, block)
    rows = sum(len(r) for level in running._levels for r in level)
    assert rows <= capacity * len(running._levels)
    assert len(running._levels) <= 7  # 2^6 > 50


def test_finishing_does_not_disturb_what_is_still_to_come():
    values = RNG.normal(size=(1000, 2))
    running = taken_in(values[:500], capacity=64)
    running.finish()
    for start in range(500, 1000, 100):
        running.update(values[start : start + 100])
    assert running.finish() == taken_in(values, capacity=64).finish()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_with_their_dimension(bad):
    values = np.zeros((5, 3))
    values[3, 1] = bad
    running = taken_in(np.ones((4, 3)))
    with pytest.raises(HoldfastError, match=r"Dimension 1 holds NaN or infinite values.*holdfast doctor"):
        running.update(values)
    assert running.finish().count == 4


@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 4), (5, 3, 1)])
def test_a_wrong_shape_is_refused(shape):
    with pytest.raises(HoldfastError, match="rows of 3 numbers"):
        taken_in(np.ones((4, 3))).update(np.ones(shape))


def test_statistics_of_nothing_are_refused():
    running = RunningStats()
    running.update(np.empty((0, 3)))
    with pytest.raises(HoldfastError, match="no values"):
        running.finish()


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=finite))
@settings(deadline=None)
def test_json_round_trip_is_bit_exact(values):
    stats = taken_in(values, capacity=16, block=5).finish()
    back = from_json(Stats, json.loads(json.dumps(to_json(stats))), "stats")
    assert back == stats
    for name in COLUMNS:
        assert np.array(getattr(back, name)).tobytes() == np.array(getattr(stats, name)).tobytes()
    assert type(back.q01) is tuple


def test_a_declared_range_is_its_own_statistics():
    stats = Stats.from_range(np.array([-1.0, 0.0]), np.array([3.0, 0.5]))
    assert (stats.q01, stats.q99) == (stats.min, stats.max) == ((-1, 0), (3, 0.5))
    assert (stats.mean, stats.std) == ((1, 0.25), (2, 0.25))
    assert (stats.count, stats.rank_error) == (0, 0)
