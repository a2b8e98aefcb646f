"""People see the cell in a room with soft light; policies see, and the physics does, exactly what it did without."""

import mujoco
import mujoco.viewer
import numpy as np
import pytest

from holdfast import arenas
from holdfast.twin.cell import CAMERAS
from holdfast.twin.env import CellEnv
from holdfast.twin.look import VISITOR
from holdfast.twin.portrait import STILL, Quality
from holdfast.twin.scripted import expert
from holdfast.twin.tasks import TASKS

pytestmark = pytest.mark.sim
QUICK = Quality(1, 64)


def played(name: str, pictures: bool) -> list[bytes]:
    """Images of all cameras and the state of the physics, at the start and after some steps of the expert."""
    env = CellEnv(name)
    env.reset(5, "wide")
    policy, seen = expert(env, None), []
    for _ in range(2):
        if pictures:
            env.show((24, 32), (*CAMERAS, VISITOR), QUICK)
        images = env.observe((48, 48)).images
        data = env.world.data
        seen += [images[camera].tobytes() for camera in CAMERAS] + [data.qpos.tobytes(), data.qvel.tobytes()]
        for _ in range(8):
            env.step(policy.act())
    env.close()
    return seen


@pytest.mark.parametrize("name", TASKS)
def test_pictures_for_people_change_neither_images_nor_physics(name):
    assert played(name, pictures=True) == played(name, pictures=False)


@pytest.mark.parametrize("name", TASKS)
def test_the_copy_that_people_see_has_the_pose_of_the_simulated_cell(name):
    env = CellEnv(name)
    env.reset(3)
    world, copy = env.world, env.dressed()
    assert (copy.model.nq, copy.model.nu) == (world.model.nq, world.model.nu)
    assert np.array_equal(copy.data.mocap_pos, world.data.mocap_pos)
    mujoco.mj_kinematics(world.model, world.data)
    for body in range(1, world.model.nbody):
        own = copy.model.body(world.model.body(body).name).id
        assert copy.data.xpos[own] == pytest.approx(world.data.xpos[body], abs=1e-4)  # cloth is raised by a hair
    env.close()


def test_only_people_see_the_room():
    env = CellEnv("press_button")
    model = env.world.model
    assert model.vis.quality.shadowsize == model.vis.quality.offsamples == 0
    assert VISITOR not in [model.camera(i).name for i in range(model.ncam)]
    shown = env.show((48, 64), ("front", VISITOR), QUICK)
    assert set(shown) == {"front", VISITOR}
    assert np.abs(shown["front"].astype(int) - env.observe((48, 64)).images["front"]).mean() > 10
    twin, plain = arenas.load("twin"), env.observe((240, 320)).images
    assert np.array_equal(env.picture(), np.hstack([plain["head"], plain["front"]]))
    assert np.array_equal(twin.film(env), env.portrait())
    assert not np.array_equal(env.portrait(), env.picture())
    assert set(twin.show(env, (48, 64))) == set(CAMERAS)
    env.close()


def test_shadows_are_soft_and_the_table_has_no_speckles():
    env = CellEnv("press_button")
    size = (240, 320)
    hard, soft = (env.show(size, ("head",), quality)["head"] for quality in (Quality(1, 1024), STILL))
    table = np.s_[36:60, 14:300]  # its far end: nothing lies there
    assert np.ptp(hard[table], axis=(0, 1)).max() < 16
    beside = np.s_[150:200, 60:100]  # the shadow of an arm at rest
    between = [((view[beside] > 160) & (view[beside] < 215)).mean() for view in (hard, soft)]
    assert between[1] > 2 * between[0]
    env.close()


@pytest.mark.parametrize(("name", "cloth"), [("fold_tshirt", "shirt"), ("fold_towel", "towel")])
def test_cloth_is_drawn_fine_and_raised_where_it_is_turned_over(name, cloth):
    env = CellEnv(name)
    model, data = env.world.model, env.world.data
    assert model.nskin == 0
    copy = env.dressed()
    assert copy.model.nskin == 2
    assert copy.model.nskinvert > 10 * model.nflexvert
    bodies = model.flex_vertbodyid
    across = model.jnt_qposadr[model.body_jntadr[bodies] + 1]
    flat = copy.data.xpos[copy.model.flex_vertbodyid][:, 2].mean()
    left = data.xpos[bodies][:, 1]
    data.qpos[across] -= 2 * (left - left.mean())  # mirrored: its underside is up
    turned = env.dressed().data.xpos[copy.model.flex_vertbodyid][:, 2].mean()
    assert 0.002 < turned - flat < 0.005
    env.close()


def test_the_viewer_shows_the_cell_as_it_is_now(monkeypatch):
    shown = []

    class Window:
        def __init__(self, model, data):
            self.data = data

        __enter__, __exit__ = lambda self: self, lambda self, *error: None

        def is_running(self):
            return not shown

        def sync(self):
            shown.append(self.data.qpos.copy())

    monkeypatch.setattr(mujoco.viewer, "launch_passive", Window)
    twin = arenas.load("twin")
    env = twin.open("push_box")
    with twin.view(env) as window:
        assert window.is_running()
        env.step(env.world.state() + 0.05)
        window.sync()
        assert not window.is_running()
    assert np.array_equal(shown[0], env.dressed().data.qpos)
    env.close()
