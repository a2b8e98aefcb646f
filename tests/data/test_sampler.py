from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.data.sampler import Pool, Sampler
from holdfast.replay.schedule import is_replay

NEW = Pool(0, np.arange(100), 1.0)
OLD = (Pool(1, np.arange(1000, 1050), 2.0), Pool(2, np.array([7, 70, 700]), 1.0))


def sampler(**changes):
    settings = {"seed": 42, "stage": 2, "steps": 100, "batch_size": 24, "current": (NEW,), "replay": OLD, **changes}
    frequency, coin = settings.pop("frequency", 0.3), settings.pop("coin", "plain")
    seed, stage, steps, size = (settings[key] for key in ("seed", "stage", "steps", "batch_size"))
    replayed = partial(whole_batches, seed, stage, steps, frequency, coin, size)
    return Sampler(**{"replayed": replayed, **settings})


def whole_batches(seed, stage, steps, frequency, coin, size, step):
    return size if is_replay(seed, stage, step, steps, frequency, coin) else 0


def pairs(draw):
    return list(zip(draw.rows.tolist(), draw.frames.tolist(), strict=True))


def steps_of(rule, replay):
    return [step for step in range(rule.steps) if bool(rule.draw(step).replayed) is replay]


def test_a_draw_depends_only_on_seed_stage_and_step():
    rule = sampler()
    forwards = [pairs(rule.draw(step)) for step in range(30)]
    backwards = [pairs(sampler().draw(step)) for step in reversed(range(30))]
    assert forwards == backwards[::-1]
    assert pairs(sampler(steps=10**6).draw(17)) == forwards[17]


def test_draws_differ_by_seed_stage_and_step():
    step = steps_of(sampler(replay=()), replay=False)[0]
    base = sampler(replay=())
    draws = [base.draw(step), base.draw(step + 1), sampler(replay=(), seed=43).draw(step)]
    draws.append(sampler(replay=(), stage=3).draw(step))
    assert len({tuple(pairs(d)) for d in draws}) == 4


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8, 24])
def test_ranks_partition_the_same_global_batch(world):
    rule = sampler()
    for step in range(12):
        whole = rule.draw(step)
        parts = [rule.draw(step, rank, world) for rank in range(world)]
        assert {part.replayed for part in parts} == {whole.replayed}
        assert {len(part.frames) for part in parts} == {24 // world}
        assert [p for part in parts for p in pairs(part)] == pairs(whole)


def test_a_rank_sees_every_task_not_a_corner_of_the_batch():
    rule = sampler(batch_size=64, frequency=0.9)
    for step in steps_of(rule, replay=True)[:10]:
        assert {tuple(sorted(set(rule.draw(step, rank, 2).rows))) for rank in range(2)} == {(1, 2)}


def test_any_slice_of_a_batch_mixes_the_tasks():
    rule = sampler(batch_size=64, frequency=0.9)
    for step in steps_of(rule, replay=True)[:10]:
        rows = rule.draw(step).rows
        assert set(rows[:16].tolist()) == set(rows[-16:].tolist()) == {1, 2}


@pytest.mark.parametrize("world", [5, 7, 48])
def test_a_batch_that_cannot_be_dealt_equally_is_refused(world):
    with pytest.raises(HoldfastError, match=f"batch of 24 cannot be dealt to {world} ranks"):
        sampler().draw(0, 0, world)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=6), st.integers(1, 64), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_pool_has_its_share_of_the_batch_to_within_one_sample(weights, size, seed):
    pools = tuple(Pool(row, np.arange(5), weight) for row, weight in enumerate(weights))
    rows = sampler(seed=seed, batch_size=size, current=pools, replay=()).draw(0).rows
    assert len(rows) == size
    wanted = size * np.array(weights) / sum(weights)
    found = np.bincount(rows, minlength=len(weights))
    assert (np.abs(found - wanted) < 1 + 1e-9).all()


def test_equal_weights_give_exactly_equal_parts_when_they_can():
    pools = tuple(Pool(row, np.arange(10 ** (row + 1)), 1.0) for row in range(4))
    for step in range(20):
        assert np.bincount(sampler(current=pools, replay=()).draw(step).rows).tolist() == [6] * 4


def test_over_many_steps_shares_of_a_fraction_of_a_sample_come_out_right():
    pools = (Pool(0, np.arange(9), 0.9), Pool(1, np.arange(9), 0.1))
    rule = sampler(current=pools, replay=(), batch_size=3, steps=2000)
    rows = np.concatenate([rule.draw(step).rows for step in range(2000)])
    assert (rows == 1).mean() == pytest.approx(0.1, abs=0.02)


def test_replay_steps_draw_only_kept_frames_and_the_others_only_new_ones():
    rule = sampler()
    replay, new = steps_of(rule, True), steps_of(rule, False)
    assert len(replay) > 10
    assert len(new) > 10
    kept = {(p.row, int(f)) for p in OLD for f in p.frames}
    fresh = {(0, int(f)) for f in NEW.frames}
    assert {p for step in replay for p in pairs(rule.draw(step))} <= kept
    assert {p for step in new for p in pairs(rule.draw(step))} <= fresh


@pytest.mark.parametrize("coin", ["plain", "stratified"])
def test_replay_happens_when_the_coin_says_so(coin):
    rule = sampler(coin=coin)
    wanted = [step for step in range(100) if is_replay(42, 2, step, 100, 0.3, coin)]
    assert steps_of(rule, True) == wanted


def test_without_kept_frames_nothing_is_replayed():
    assert steps_of(sampler(replay=(), frequency=0.9), True) == []


def test_frames_within_a_pool_are_drawn_uniformly():
    frames = np.array([3, 1, 4, 15, 92, 65, 35, 89, 79, 32])
    rule = sampler(current=(Pool(0, frames, 1.0),), replay=(), batch_size=100)
    drawn = np.concatenate([rule.draw(step).frames for step in range(200)])
    count = Counter(drawn.tolist())
    assert set(count) == set(frames.tolist())
    expected = len(drawn) / len(frames)
    chi_squared = sum((n - expected) ** 2 / expected for n in count.values())
    assert chi_squared < 27.9  # 99.9 % of fair draws with 9 degrees of freedom


def test_the_pool_of_one_frame_gives_that_frame():
    draw = sampler(current=(Pool(3, np.array([11]), 1.0),), replay=()).draw(0)
    assert pairs(draw) == [(3, 11)] * 24


def test_a_batch_drawn_at_once_is_the_batch_drawn_frame_by_frame():
    """The rule as it was first written, one frame after the other: runs begun then go on with the same draws."""
    pools = (Pool(4, np.arange(1000, 1050), 2.0), Pool(2, np.array([7, 70, 700]), 1.0), Pool(9, np.arange(10**5), 0.3))
    rule = sampler(current=pools, replay=(), batch_size=31)
    for step in range(200):
        rng = np.random.default_rng([42, 2, step, 1])
        edges = np.cumsum([p.weight for p in pools])
        marks = (rng.random() + np.arange(31)) / 31 * edges[-1]
        chosen = [pools[min(int(np.searchsorted(edges, mark, side="right")), 2)] for mark in marks]
        one_by_one = [
            (p.row, int(p.frames[int(u * len(p.frames))])) for p, u in zip(chosen, rng.random(31), strict=True)
        ]
        assert pairs(rule.draw(step)) == [one_by_one[i] for i in rng.permutation(31)]
