"""How many trials are still needed: what the plan promises, the metrics' own intervals keep."""

from pathlib import Path

import numpy as np
import pytest

from holdfast import catalog
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.evaluate.trial_budget import trial_budget
from holdfast.metrics import mean_of_means
from holdfast.runs.checkpoint import Checkpoint
from holdfast.runs.run import FinishedStage, Run

NAMES = ("stack_bowls", "hang_cup")
STAGES = tuple(FinishedStage(n, name, Checkpoint(Path()), NAMES[:n]) for n, name in enumerate(NAMES, 1))
RUN = Run(Path("er"), "er", tuple(catalog.task(name) for name in NAMES), STAGES, 2)


def trials(task, stage, scores, seconds=10.0):
    return [Trial(task, stage, (), score=float(score), seconds=seconds) for score in scores]


def more(plan):
    return {(need.task, need.stage): need.more for need in plan.needs}


def test_without_a_trial_the_most_that_scores_can_vary_is_assumed():
    plan = trial_budget(RUN, [], 20)
    # (3.92 * 50 / 20)^2 = 96.04
    assert more(plan) == {("stack_bowls", 1): 97, ("stack_bowls", 2): 97, ("hang_cup", 2): 97}
    assert (plan.more, plan.seconds, plan.hours) == (291, None, None)
    assert all(need.mean is need.width is None for need in plan.needs)


def test_a_cell_without_trials_is_taken_to_be_like_the_others():
    # Spread of the measured cells: 2 * 25^2 over one free trial each. (3.92^2 / 400) * 1250 = 48.02
    measured = trials("stack_bowls", 1, (25, 75)) + trials("stack_bowls", 2, (50, 100))
    plan = trial_budget(RUN, measured, 20)
    assert more(plan)["hang_cup", 2] == 49
    # With trials of its own it is mixed: (1250 + 3 * 1250) / 5 = 1000 of variance, so 38.4 trials, less the two.
    assert more(plan)["stack_bowls", 1] == 37
    assert plan.hours == pytest.approx(plan.more * 10 / 3600)


def test_a_few_equal_scores_are_no_certainty():
    alike = trials("stack_bowls", 1, [100] * 6) + trials("stack_bowls", 2, [0, 100, 50, 75, 25, 100])
    need = trial_budget(RUN, alike, 10).needs[0]
    assert need.width == 0
    assert need.more > 20


def test_no_cell_stops_below_five_trials():
    assert more(trial_budget(RUN, trials("stack_bowls", 1, [100, 100, 100]), 100))["stack_bowls", 1] == 2


@pytest.mark.parametrize("width", [10, 20, 30])
def test_with_the_planned_trials_the_metrics_interval_is_as_wide_as_wanted(width):
    seen = [0, 25, 50, 50, 75, 75, 100, 100, 100, 100]
    need = trial_budget(RUN, trials("stack_bowls", 1, seen), width).needs[0]
    assert need.more > 0
    rng = np.random.default_rng(0)
    figures = [mean_of_means([rng.choice(seen, size=10 + need.more).tolist()]) for _ in range(20)]
    assert np.mean([figure.high - figure.low for figure in figures]) == pytest.approx(width, rel=0.1)


def test_a_settled_cell_needs_no_more():
    plan = trial_budget(RUN, trials("stack_bowls", 1, [50, 75] * 30), 20)
    assert plan.needs[0].more == 0
    assert plan.needs[0].width < 20


@pytest.mark.parametrize("width", [0, -1, 101])
def test_a_width_outside_the_scale_is_refused(width):
    with pytest.raises(HoldfastError, match="--width"):
        trial_budget(RUN, [], width)
