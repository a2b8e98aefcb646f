"""When a cell has enough trials, and which of them count."""

import itertools
import random
from pathlib import Path

import pytest

from holdfast.core.records import Trial
from holdfast.evaluate.cells import Cell, interval_width
from holdfast.runs.checkpoint import Checkpoint
from holdfast.runs.run import FinishedStage

STAGE = FinishedStage(1, "stack_bowls", Checkpoint(Path("checkpoint")), ("stack_bowls",))


def trial(seed, score):
    return Trial("stack_bowls", 1, (), seed=seed, score=score)


def cell(trials=20, **options):
    return Cell(STAGE, "stack_bowls", range(trials), **options)


def written(cell, order, score=lambda seed: 0.0):
    """Run the cell with its seeds ending in the given order; gives the seeds written."""
    return [due.seed for seed in order for due in cell.add(trial(seed, score(seed)))]


def test_trials_that_end_out_of_order_are_written_in_order():
    some = cell(4)
    assert written(some, [2, 0]) == [0]
    assert written(some, [1]) == [1, 2]
    assert not some.settled
    assert some.remaining == 1
    assert written(some, [3]) == [3]
    assert some.settled


def test_what_was_measured_before_is_not_run_again():
    some = cell(6, known={0: 100.0, 1: 50.0, 4: 0.0})
    assert list(some.left()) == [2, 3, 5]
    assert some.scores == [100.0, 50.0]
    assert written(some, [5, 3, 2]) == [2, 3, 5]
    assert len(some.scores) == 6
    assert list(cell(2, known={0: 1.0, 1: 2.0}).left()) == []


def test_an_early_stop_depends_on_seeds_not_on_who_was_faster():
    def score(seed):
        return 100.0 * (seed % 7 == 0)

    in_order = written(cell(100, width=30), range(100), score)
    assert 5 < len(in_order) < 100
    for seed in range(5):
        shuffled = list(range(100))
        for start in range(0, 100, 10):  # ten processes
            block = shuffled[start : start + 10]
            random.Random(seed).shuffle(block)
            shuffled[start : start + 10] = block
        assert written(cell(100, width=30), shuffled, score) == in_order


def test_a_cell_that_stopped_early_gives_out_no_more_seeds_and_is_stopped_at_the_next_start():
    some = cell(100, width=30)
    seeds = some.left()
    drawn = list(itertools.islice(seeds, 12))
    kept = written(some, drawn)
    assert kept == list(range(len(kept)))
    assert some.settled
    assert list(seeds) == []
    assert some.remaining == 0
    again = cell(100, width=30, known=dict.fromkeys(kept, 0.0))
    assert list(again.left()) == []


def test_a_few_equal_scores_are_not_taken_for_certainty():
    assert interval_width([0.0] * 5) == pytest.approx(43.4, abs=0.1)  # Wilson's interval of 0 in 5
    assert interval_width([50.0] * 20) == pytest.approx(interval_width([0.0, 100.0] * 10))
    assert interval_width([100.0] * 20) < interval_width([100.0] * 5)
