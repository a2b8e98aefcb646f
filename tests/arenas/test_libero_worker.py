"""LIBERO's worker, with a stand-in for the package; the real one is tested where it is set up."""

import json
import math

import numpy as np
import pytest
import torch
from lerobot.processor import LiberoProcessorStep
from own_python import make_python, write_arena
from toys import TINY, numbers_stream, write_numbers

from holdfast import catalog
from holdfast.arenas.contract import ArenaContract
from holdfast.arenas.worker_arena import WorkerArena
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.runs.trials import Trials

# What the worker uses of hf-libero 0.1.4, with a point for a robot.
PATHS = """
import json, os
FILE = os.path.join(os.environ.get("LIBERO_CONFIG_PATH", "/nowhere"), "config.yaml")
if not os.path.exists(FILE):
    input("Do you want to specify a custom path for the dataset folder? (Y/N): ")
def get_libero_path(key):
    with open(FILE) as file:
        return json.load(file)[key]
def get_assets_path():
    return get_libero_path("assets")
"""
SUITES = """
import os
from collections import namedtuple
import numpy as np
from libero.libero import get_libero_path
Task = namedtuple("Task", "name language")
class Suite:
    def __init__(self, name, *tasks):
        self.name, self.tasks = name, [Task(task, task.replace("_", " ")) for task in tasks]
    def get_task_bddl_file_path(self, i):
        return os.path.join(get_libero_path("bddl_files"), self.tasks[i].name)
    def get_task_init_states(self, i):
        return np.linspace([0, 0, 0], [0.4, 0.4, 0.4], 5) + i
def get_benchmark_dict():
    goal = "turn_on_the_stove", "put_the_bowl_on_the_plate"
    return {"libero_goal": lambda: Suite("libero_goal", *goal), "libero_10": lambda: Suite("libero_10", "LONG")}
"""
ENVIRONMENT = """
import numpy as np
class OffScreenRenderEnv:
    def __init__(self, bddl_file_name, camera_names, camera_heights, camera_widths):
        self.cameras, self.size = camera_names, (camera_heights, camera_widths)
        with open(bddl_file_name):
            self.steps = 0
    def seed(self, seed):
        self.random = np.random.default_rng(seed)
    def reset(self):
        self.at = self.random.uniform(5, 9, 3)
    def set_init_state(self, state):
        self.at = state.copy()
    def step(self, action):
        self.at = self.at + 0.01 * np.clip(action[:3], -1, 1) - [0, 0, 1e-3]
        angle = self.at[1]
        turn = np.array([0, 0, np.sin(angle / 2), np.cos(angle / 2)])
        fingers = np.array([0.04, -0.04])
        seen = {"robot0_eef_pos": self.at, "robot0_eef_quat": turn, "robot0_gripper_qpos": fingers}
        return {**seen, **{f"{camera}_image": self.render(camera) for camera in self.cameras}}, 0, False, {}
    def render(self, camera):
        image = np.zeros((*self.size, 3), np.uint8)
        image[0] = 200 if camera == "agentview" else 100
        image[:, 0, 1] = np.clip(100 * self.at[0] + 0.5, 0, 255)
        return image
    def check_success(self):
        return self.at[0] > 1.5
    def close(self):
        del self.at
"""
MODULES = {
    "libero/__init__.py": "",
    "libero/libero/__init__.py": PATHS,
    "libero/libero/benchmark.py": SUITES,
    "libero/libero/envs.py": ENVIRONMENT,
    "libero/libero/assets/here": "",
    **{f"libero/libero/bddl_files/{name}": "" for name in ("turn_on_the_stove", "put_the_bowl_on_the_plate", "LONG")},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LIBERO_CONFIG_PATH", raising=False)
        folder = tmp_path_factory.mktemp("libero")
        make_python(folder, MODULES)
        yield folder


def arena_of(folder, **options):
    return WorkerArena(write_arena(folder, folder / "env/bin/python", "libero", options))


@pytest.fixture(scope="module")
def arena(folder):
    return arena_of(folder, suites=["libero_goal", "libero_10"], size=8)


class TestLibero(ArenaContract):
    task = "turn_on_the_stove"

    @pytest.fixture(autouse=True, scope="class")
    def _arena(self, arena):
        type(self).arena = arena


def test_it_is_as_the_streams_and_the_embodiment_say(arena):
    assert arena.action == EMBODIMENTS["libero"].names
    assert not set(arena.state) & set(arena.action), "increments: nothing is subtracted from them"
    known = {task.task.name: task.task.instruction for task in catalog.load_stream("libero_goal", "data").tasks}
    for name in ("turn_on_the_stove", "put_the_bowl_on_the_plate"):
        assert arena.tasks[name].instruction == known[name]
    assert (arena.rate, arena.cameras) == (20, ("image", "image2"))
    assert arena.kinds == {d.name: d.kind for d in EMBODIMENTS["libero"].dimensions[:6]}
    assert [arena.max_steps(task) for task in ("turn_on_the_stove", "LONG")] == [300, 520]


def test_a_seed_is_an_initial_state_after_ten_steps_of_rest(arena):
    environment = arena.open("put_the_bowl_on_the_plate")
    for seed in (0, 3, 8, 5):
        environment.reset(seed, "")
        assert environment.observe().state[:3] == pytest.approx(1 + 0.1 * (seed % 5) - np.array([0, 0, 0.01]))
    environment.close()


def test_state_and_images_are_those_of_lerobot(arena):
    environment = arena.open("put_the_bowl_on_the_plate")
    environment.reset(4, "")
    for _ in range(100):
        environment.step(np.ones(7))
    seen = environment.observe((8, 8), ("image", "image2"))
    assert 2 < seen.state[1] < math.pi, "a turn of more than a right angle"
    turn = torch.tensor([[0, 0, math.sin(seen.state[1] / 2), math.cos(seen.state[1] / 2)]])
    theirs = {
        "eef": {"pos": torch.tensor(seen.state[None, :3]), "quat": turn},
        "gripper": {"qpos": torch.tensor([[0.04, -0.04]])},
    }
    raw = torch.zeros(1, 3, 8, 8)
    raw[:, :, 0], raw[:, 1, :, 0] = 200, 100 * seen.state[0] + 0.5
    made = LiberoProcessorStep().observation(
        {"observation.robot_state": theirs, "observation.images.image": raw.to(torch.uint8)}
    )
    assert seen.state == pytest.approx(made["observation.state"][0].numpy(), abs=1e-6)
    assert np.array_equal(seen.images["image"], made["observation.images.image"][0].permute(1, 2, 0).numpy())
    assert (seen.images["image2"][-1, :-1] == 100).all()
    assert environment.reached().final


@pytest.mark.slow
def test_a_policy_of_data_that_call_the_steps_by_another_rate_is_tried_at_the_arenas_own(folder, arena, capsys):
    """Many releases of LIBERO's data say 10 frames a second, and hold every step of the simulator."""
    task = "turn_on_the_stove"
    write_numbers(folder / task, 8, 7, camera="observation.images.image")  # at 10 frames a second
    stream, run = numbers_stream(folder, (task,), embodiment="libero"), folder / "run"
    train = ["train", f"--stream={stream}", f"--output={run}", "--device=cpu", "--norm.limit=1000", *TINY]
    assert main([*train, "--steps=2", "--batch_size=4"]) == 0
    options, python = {"suites": ["libero_goal"], "size": 8}, folder / "env/bin/python"
    plain = write_arena(folder, python, "libero", options)
    said = write_arena(folder, python, "libero", options, "said", 'name = "own"\nrate = 10')
    evaluate = ["evaluate", str(run), "--device=cpu", "--processes=1", "--trials=1", "--horizon=8", "--arena"]
    assert main([*evaluate, str(plain)]) == 2
    assert "at 10 steps a second, the arena 'own' takes 20" in " ".join(capsys.readouterr().err.split())
    assert main([*evaluate, str(said)]) == 0
    with Trials(run / "trials.sqlite") as file:
        (trial,) = file.all()
    assert (trial.source, trial.valid, trial.seconds) == ("own", True, 300 / 10)
    slow, own = (opened.open(task) for opened in (WorkerArena(said), arena))
    for environment in (slow, own):
        environment.reset(3, "")
        environment.step(np.ones(7))
    assert np.array_equal(slow.observe().state, own.observe().state), "the simulator runs as it does"


def test_its_paths_are_those_of_the_package_in_use(folder, arena):
    paths = json.loads((folder / "env/libero_config/config.yaml").read_text())
    assert paths["init_states"] == str(folder / "modules/libero/libero/init_files")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"suites": ["libero_gaol"]}, "Unknown suite 'libero_gaol'. Valid: libero_spatial"), ({}, "assets are missing")],
)
def test_what_is_missing_is_said_at_the_start(folder, arena, options, said):
    assets = folder / "modules/libero/libero/assets"
    assets.rename(assets.with_name("elsewhere"))
    try:
        with pytest.raises(HoldfastError, match=said):
            arena_of(folder, **options)
    finally:
        assets.with_name("elsewhere").rename(assets)
