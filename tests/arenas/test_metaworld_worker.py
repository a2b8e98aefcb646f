"""MetaWorld's worker, with a stand-in for the packages; the real ones are tested where they are set up."""

import pytest
from own_python import make_python, write_arena

from holdfast.arenas.worker_arena import WorkerArena
from holdfast.embodiments import EMBODIMENTS

METAWORLD = """
from types import SimpleNamespace
import numpy as np


class Push:
    sawyer_observation_space = None

    def __init__(self):
        quality = SimpleNamespace(shadowsize=1, offsamples=1)
        self.model = SimpleNamespace(
            cam_pos=np.zeros((3, 3)),
            camera=lambda name: SimpleNamespace(id=2),
            vis=SimpleNamespace(quality=quality),
            light_castshadow=np.ones(1),
        )
        self.data = None
        self.sawyer_observation_space = 1

    def seed(self, seed):
        self.start = seed

    def reset(self):
        return np.full(39, float(self.start)), {}


ALL_V3_ENVIRONMENTS = {"push-v3": Push}
"""
MUJOCO = """
import numpy as np


def mj_resetData(model, data): ...


class Renderer:
    def __init__(self, model, height, width):
        self.size = height, width

    def update_scene(self, data, camera):
        self.value = {"corner2": 50, "gripperPOV": 80}[camera]

    def render(self):
        image = np.full((*self.size, 3), self.value, np.uint8)
        image[0] = 200
        return image

    def close(self): ...
"""
MODULES = {"metaworld/__init__.py": METAWORLD, "metaworld/policies.py": "ENV_POLICY_MAP = {}", "mujoco.py": MUJOCO}


@pytest.fixture(scope="module")
def arena_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metaworld")
    python = make_python(folder, MODULES)
    return lambda **options: WorkerArena(write_arena(folder, python, "metaworld", options))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ("corner2",)),
        ({"cameras": ["corner2", "gripperPOV"]}, ("corner2", "gripperPOV")),
        ({"cameras": {"image": "corner2", "hand": "gripperPOV"}}, ("image", "hand")),
    ],
)
def test_cameras_go_by_their_own_names_or_by_those_that_are_given(arena_of, options, names):
    arena = arena_of(**options)
    assert arena.cameras == names
    environment = arena.open("push-v3")
    environment.reset(0, "")
    images = environment.observe((4, 4), names).images
    assert images[names[0]][0, 0, 0] == 50, "corner2 hangs upside down"
    assert images[names[0]][-1, 0, 0] == 200
    if len(names) > 1:
        assert images[names[1]][:, 0, 0].tolist() == [200, 80, 80, 80]


def test_its_kinds_are_those_of_the_embodiment(arena_of):
    arena, robot = arena_of(), EMBODIMENTS["metaworld"]
    assert arena.action == robot.names
    assert arena.kinds == {d.name: d.kind for d in robot.dimensions[:3]}
