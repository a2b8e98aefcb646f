"""The simulated cell as a robot: what its cameras show."""

import pytest

from holdfast import arenas, catalog
from holdfast.robots.simulated import Simulated
from holdfast.twin.views import Views

pytestmark = pytest.mark.sim


def test_cameras_of_one_size_are_drawn_together(monkeypatch):
    drawn, draw = [], Views.draw

    def noting(self, data, cameras):
        drawn.append(cameras)
        return draw(self, data, cameras)

    monkeypatch.setattr(Views, "draw", noting)
    robot = Simulated(
        arenas.load("twin"), catalog.task("press_button"), {"head": (24, 32), "left_wrist": (16, 16), "front": (24, 32)}
    )
    robot.begin(1)
    images = robot.observe().images
    assert {name: image.shape for name, image in images.items()} == {
        "head": (24, 32, 3),
        "left_wrist": (16, 16, 3),
        "front": (24, 32, 3),
    }
    assert sorted(drawn) == [["head", "front"], ["left_wrist"]]
