"""The worker for Gymnasium's environments: which actions it takes, and what it makes of them."""

import numpy as np
import pytest
from own_python import make_python, write_arena

from holdfast.arenas.worker_arena import WorkerArena
from holdfast.core.errors import HoldfastError

GRID = """
import gymnasium
import numpy as np


class Grid(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-99, 99, (2,))

    def __init__(self, render_mode, space):
        self.action_space = {
            "integers": gymnasium.spaces.Box(-3, 3, (2,), np.int8),
            "numbers": gymnasium.spaces.Box(-3, 3, (2,), np.float32),
            "choices": gymnasium.spaces.Discrete(4),
        }[space]

    def reset(self, seed=None, options=None):
        return np.zeros(2), {}

    def step(self, action):
        assert action.dtype == self.action_space.dtype
        return action.astype(np.float64), 0.0, False, False, {}


gymnasium.register("Grid-v0", Grid, max_episode_steps=9)
"""


@pytest.fixture(scope="module")
def open_grid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    python = make_python(folder, {"grid.py": GRID})

    def opened(space):
        options = {"id": "grid:Grid-v0", "instruction": "Go.", "make": {"space": space}}
        environment = WorkerArena(write_arena(folder, python, "gymnasium", options)).open("grid")
        environment.reset(0, "")
        return environment

    return opened


@pytest.mark.parametrize(
    ("space", "made"), [("integers", [[1, -1], [3, -3]]), ("numbers", [[np.float32(0.9), -1.25], [3, -3]])]
)
def test_actions_are_rounded_where_integers_are_taken_and_cut_to_the_limits(open_grid, space, made):
    environment = open_grid(space)
    for action, expected in zip(([0.9, -1.25], [300.0, -300.0]), made, strict=True):
        environment.step(action)
        assert environment.observe().state.tolist() == expected


def test_choices_are_refused_at_once(open_grid):
    with pytest.raises(HoldfastError, match=r"Actions of grid:Grid-v0 are Discrete\(4\); policies command numbers"):
        open_grid("choices")
