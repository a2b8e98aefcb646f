"""LeRobot's worker: an environment that a plugin registers with LeRobot is an arena, by its type alone."""

from importlib import import_module

import numpy as np
import pytest
from own_python import make_python, write_arena

from holdfast.arenas.contract import ArenaContract
from holdfast.arenas.worker_arena import WorkerArena
from holdfast.arenas.worker_process import WORKERS
from holdfast.core.errors import HoldfastError

pytestmark = pytest.mark.slow  # LeRobot is imported by several processes
# Two tasks. As LIBERO's, its resets take one initial state after the other, and a processor makes the state.
PLUGIN = """
from dataclasses import dataclass
from functools import partial

import gymnasium
import numpy as np
from lerobot.envs.configs import EnvConfig
from lerobot.processor import LiberoProcessorStep, PolicyProcessorPipeline


class Point(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    observation_space = gymnasium.spaces.Dict()
    init_state_id = 0

    def __init__(self, task, speed, max_steps):
        self.task, self.speed, self._max_episode_steps = task, speed, max_steps
        self.task_description = f"Please {task}."

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.mark, self.steps = np.zeros(2), 20 + self.init_state_id % 50, 0
        self.init_state_id += 1
        return self.seen(), {"is_success": False}

    def step(self, action):
        self.at, self.steps = self.at + self.speed * action, self.steps + 1
        done = bool(self.at[0] > self.mark)
        return self.seen(), 0.0, done, self.steps >= self._max_episode_steps, {"is_success": done}

    def seen(self):
        eef = {"pos": np.array([*self.at, self.mark]), "quat": np.array([0.0, 0.0, 0.0, 1.0])}
        return {"pixels": {"top": self.render()}, "robot_state": {"eef": eef, "gripper": {"qpos": np.zeros(2)}}}

    def render(self):
        image = np.zeros((8, 12, 3), np.uint8)
        image[0, :6], image[:, -1] = self.mark, 255
        return image


@EnvConfig.register_subclass("point")
@dataclass
class PointConfig(EnvConfig):
    task: str = "go"
    fps: int = 10
    speed: float = 1.0
    episode_length: int = 12

    @property
    def gym_kwargs(self):
        return {}

    def create_envs(self, n_envs, use_async_envs=False):
        makers = [partial(Point, task, self.speed, self.episode_length) for task in self.task.split(",")]
        vector = partial(gymnasium.vector.SyncVectorEnv, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
        return {"points": {i: vector([maker] * n_envs) for i, maker in enumerate(makers)}}

    def get_env_processors(self):
        return PolicyProcessorPipeline(steps=[LiberoProcessorStep()]), PolicyProcessorPipeline(steps=[])
"""
MODULES = {
    "lerobot_env_point/__init__.py": PLUGIN,
    "lerobot_env_point-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: lerobot_env_point\nVersion: 1.0\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lerobot")
    make_python(folder, MODULES)
    return folder


def arena_of(folder, **options):
    return WorkerArena(write_arena(folder, folder / "env/bin/python", "lerobot", options))


@pytest.fixture(scope="module")
def arena(folder):
    return arena_of(folder, type="point", action=["dx", "dy"], config={"task": "go,stay", "speed": 2.0})


class TestLeRobot(ArenaContract):
    task = "stay"

    @pytest.fixture(autouse=True, scope="class")
    def _arena(self, arena):
        type(self).arena = arena


def test_it_is_as_its_config_says(arena):
    assert {name: task.instruction for name, task in arena.tasks.items()} == {
        "go": "Please go.",
        "stay": "Please stay.",
    }
    assert (arena.rate, arena.max_steps("go"), arena.cameras, arena.policies) == (10, 12, ("top",), ())
    assert (arena.state, arena.action) == (tuple(f"state_{i}" for i in range(8)), ("dx", "dy"))


def test_an_episode_is_that_of_lerobot_to_its_last_step(arena):
    environment = arena.open("go")
    environment.reset(5, "")
    seen = environment.observe((8, 12), ("top",))
    assert seen.state.tolist() == [0, 0, 25, 0, 0, 0, 0, 0], "the processor's state, of the seed's initial state"
    image = np.zeros((8, 12), np.uint8)
    image[0, :6], image[:, -1] = 25, 255
    assert np.array_equal(seen.images["top"][:, :, 0], image[::-1, ::-1]), "turned by the processor"
    environment.step(np.array([6.0, 0.5]))
    assert environment.observe().state[:2].tolist() == [12, 1], "actions are not cut"
    environment.step(np.array([7.0, 0.5]))
    assert environment.over
    assert environment.reached().final
    assert environment.observe().state[:3].tolist() == [26, 2, 25], "not the next episode's first state"
    environment.close()


def test_an_unknown_type_is_said_at_the_start(folder):
    with pytest.raises(HoldfastError, match=r"'pont' is not registered\. Available: .*'point'"):
        arena_of(folder, type="pont")


def test_an_unknown_option_of_a_config_is_named(monkeypatch):
    monkeypatch.syspath_prepend(WORKERS)
    worker = import_module("lerobot_worker")
    with pytest.raises(TypeError, match="colour"):
        worker.LeRobotTasks("pusht", config={"colour": 1})
