"""The page about adding a robot: its code runs, and its robot has all that the protocol asks for."""

from pathlib import Path

import numpy as np
from blocks import run_blocks

from holdfast.robots.robot import Robot

PAGE = Path(__file__).parents[2] / "docs/tutorials/add_a_robot.md"


def test_the_robot_of_the_page_is_driven_by_a_policy(tmp_path, monkeypatch):
    page = run_blocks(PAGE, tmp_path, monkeypatch)
    robot = page.robot
    asked = {*Robot.__annotations__, *(name for name in vars(Robot) if not name.startswith("_"))}
    assert asked <= {*dir(robot)}, "the page forgets a part of the protocol"
    assert [(report.outcome.ended, report.outcome.steps) for report in page.reports] == [("time", 60)] * 2
    poses = np.array([page.dataset[i]["action"].numpy() for i in range(60)])
    assert np.ptp(poses[:, :2], axis=0).min() > 0.01, "it moves"
    lower, upper = page.BENCH_ARM.state_range()
    assert (poses >= lower - 1e-6).all()
    assert (poses <= upper + 1e-6).all()
    assert np.abs(np.diff(poses[:, :2], axis=0)).max() <= 0.04 + 1e-6, "never faster than the embodiment allows"
