"""Any arena with an embodiment is a robot: same loop, same limits, scored by the rubric of whoever asks."""

from dataclasses import replace

import numpy as np
import pytest
from fake_arena import FakeArena

from holdfast.core.errors import HoldfastError
from holdfast.embodiments.embodiment import Dimension, Embodiment
from holdfast.robots.simulated import Simulated

POINT = Embodiment("point", tuple(Dimension(name, "point", "joint", -1, 1, 0.1) for name in ("x", "y")))
TOUCH = FakeArena.tasks["touch"]


class Bodied(FakeArena):
    embodiment = POINT


def test_it_sees_moves_and_scores_itself():
    robot = Simulated(Bodied(), TOUCH, {"top": (16, 24)})
    robot.begin(3)
    assert (robot.embodiment, robot.rate, robot.level, robot.over) == (POINT, 10, "", False)
    seen = robot.observe()
    assert (seen.images["top"].shape, seen.state.tolist()) == ((16, 24, 3), [0, 0])
    while not robot.over:
        robot.send(robot._episode.environment.mark)
    trial = robot.trial(2)
    assert (trial.source, trial.task, trial.stage, trial.seed, trial.score) == ("fake", "touch", 2, 3, 100)
    robot.begin(3)
    assert not robot.over
    assert np.array_equal(robot.observe().state, [0, 0])


def test_the_rubric_is_that_of_the_task_it_was_given():
    """Of the same point one task asks for milestones, another for success alone."""
    mirror = FakeArena.tasks["mirror"]
    scores = []
    for task in (mirror, replace(mirror, milestones=())):
        robot = Simulated(Bodied(), task, {"top": (16, 24)})
        robot.begin(0)
        for _ in range(2):
            robot.send(-robot._episode.environment.mark)
        scores.append(robot.trial(0).score)
    assert scores == [50, 0]


def test_without_an_embodiment_there_are_no_limits_to_keep():
    with pytest.raises(HoldfastError, match="holdfast evaluate"):
        Simulated(FakeArena(), TOUCH, {})
