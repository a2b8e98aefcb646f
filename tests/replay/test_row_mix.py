"""Replay inside a batch: exact counts, the same for every rank and every resume."""

from functools import partial

import numpy as np
import pytest

from holdfast.core.records import Stage
from holdfast.data.sampler import Pool, Sampler
from holdfast.methods import METHODS
from holdfast.replay.config import ReplayConfig

STEPS, BATCH, SEED = 250, 30, 7
STAGE = Stage(4, "d", (3,), STEPS, 0.35)
SHARES = (0.5, 0.25, 0.25)


@pytest.fixture
def sampler():
    """A stage that learns source 0 and replays 35 % of every batch from sources 1 to 3."""
    replay = tuple(Pool(row, 1000 * row + np.arange(50), share) for row, share in enumerate(SHARES, 1))
    method, config = METHODS["er"](), ReplayConfig(mix="row", frequency=0.35)
    rows = partial(_rows, method, config)
    return Sampler(SEED, STAGE.number, STEPS, BATCH, (Pool(0, np.arange(90), 1.0),), replay, rows)


def _rows(method, config, step):
    return method.replayed_rows(STAGE, step, BATCH, config, SEED)


def counts(draw):
    return np.bincount(draw.rows, minlength=4)


def test_every_batch_has_its_share_and_the_stage_its_total(sampler):
    drawn = np.stack([counts(sampler.draw(step)) for step in range(STEPS)])
    replayed = drawn[:, 1:].sum(1)
    assert set(replayed) == {10, 11}  # 0.35 * 30 = 10.5
    assert replayed.sum() == round(0.35 * STEPS * BATCH) == 2625
    assert drawn[:, 0].sum() == STEPS * BATCH - 2625


def test_replayed_rows_are_shared_among_tasks_within_one_row_and_evenly_over_time(sampler):
    drawn = np.stack([counts(sampler.draw(step))[1:] for step in range(STEPS)])
    wanted = drawn.sum(1, keepdims=True) * np.array(SHARES)
    assert (np.abs(drawn - wanted) < 1).all()
    assert np.abs(drawn.sum(0) - wanted.sum(0)).max() < 3 * np.sqrt(STEPS / 4)


def test_ranks_share_a_mixed_batch_and_each_gets_some_of_both(sampler):
    mixed = 0
    for step in range(40):
        whole, parts = sampler.draw(step), [sampler.draw(step, rank, 3) for rank in range(3)]
        assert np.array_equal(np.concatenate([part.frames for part in parts]), whole.frames)
        assert {part.replayed for part in parts} == {whole.replayed}
        mixed += all(0 < (part.rows > 0).sum() < 10 for part in parts)
    assert mixed >= 35


def test_a_batch_depends_on_nothing_but_its_step(sampler):
    later = sampler.draw(100)
    for step in (3, 200):
        sampler.draw(step)
    again = sampler.draw(100)
    assert np.array_equal(later.frames, again.frames)
    assert np.array_equal(later.rows, again.rows)
