"""The cell, its kinematics, and the environment around a task."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from holdfast.catalog import cameras, task
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Reached
from holdfast.embodiments import EMBODIMENTS
from holdfast.embodiments import piper_x_ik as ik
from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.arm import joint_names
from holdfast.twin.cell import CAMERAS
from holdfast.twin.scripted import expert, run
from holdfast.twin.task import Scorer, Spread

EMBODIMENT = EMBODIMENTS["piper_x_pair"]


class Notes(Scorer):
    def check(self) -> bool:
        return True


def test_joints_and_cameras_are_named_as_in_embodiment_and_catalog(env_of):
    names = [name for side in SIDES for name in joint_names(side)]
    assert [f"{name}.pos" for name in names] == list(EMBODIMENT.names)
    assert [camera.name for camera in cameras()] == list(CAMERAS)
    model = env_of("press_button").world.model
    lower, upper = EMBODIMENT.state_range()
    limits = np.array([model.actuator(name).ctrlrange for name in names])
    assert np.allclose(limits, np.column_stack([lower, upper]))


@pytest.mark.parametrize("side", SIDES)
def test_inverse_kinematics_puts_the_hand_where_it_was_asked(env_of, side):
    world, rng, solved = env_of("press_button").world, np.random.default_rng(0), 0
    start = 7 * SIDES.index(side)
    for _ in range(200):
        sign = 1 if side == "left" else -1
        position = np.array([rng.uniform(0.15, 0.45), sign * rng.uniform(0, 0.4), rng.uniform(0.02, 0.2)])
        rotation = ik.down(rng.uniform(-1, 1), rng.uniform(0, 0.5), ik.heading(side, position))
        joints = ik.solve(side, position, rotation)
        if joints is None:
            continue
        solved += 1
        world.reset()
        world.data.qpos[world._joints[SIDES.index(side)]] = joints
        world.settle(0)
        found, turned = world.tcp(side)
        assert np.allclose(world.state()[start : start + 6], joints)
        assert np.allclose(found, position, atol=1e-4)
        assert np.allclose(turned, rotation, atol=1e-3)
    assert solved > 100


def test_out_of_reach_is_said():
    assert ik.solve("left", np.array([0.9, 0.0, 0.1]), ik.down()) is None


def test_arms_follow_targets_and_state_is_measured(env_of):
    env = env_of("press_button")
    env.reset(0)
    target = env.world.home.copy()
    target[[0, 6, 7, 13]] += [0.2, -0.03, -0.2, 0.02]
    for _ in range(40):
        env.step(target)
    assert np.allclose(env.observe().state, target, atol=2e-3)


def test_observation_has_images_of_any_size_only_on_request(env_of):
    env = env_of("press_button")
    env.reset(0)
    assert env.observe().images == {}
    images = env.observe((48, 64)).images
    assert tuple(images) == CAMERAS
    assert all(image.shape == (48, 64, 3) and image.dtype == np.uint8 for image in images.values())
    assert env.observe((720, 960), ["front"]).images["front"].shape == (720, 960, 3)


@pytest.mark.parametrize("action", [np.zeros(13), np.full(14, np.nan)])
def test_a_malformed_action_is_refused(env_of, action):
    with pytest.raises(HoldfastError, match="14 finite numbers"):
        env_of("press_button").step(action)


def test_unknown_level_lists_the_valid_ones(env_of):
    with pytest.raises(HoldfastError, match="easy, standard, wide"):
        env_of("press_button").reset(0, "hard")


def test_an_untouched_episode_scores_nothing(env_of):
    env = env_of("press_button")
    env.reset(5, "wide")
    assert env.reached() == Reached()
    assert env.score() == 0


def test_spread_scales_with_the_level_and_keeps_things_apart():
    points = {
        level: Spread(np.random.default_rng(1), level).xy((1, 2), 0.1) for level in ("nominal", "easy", "standard")
    }
    assert np.allclose(points["nominal"], (1, 2))
    assert np.allclose(points["standard"] - (1, 2), 2 * (points["easy"] - (1, 2)))
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = Spread(rng, "wide").apart([(0, 0), (0.1, 0)], 0.05, 0.08)
        assert np.linalg.norm(a - b) >= 0.08


def test_scorer_latches_revokes_and_counts(env_of):
    notes = Notes(env_of("stack_bowls").world, task("place_cola"))
    notes.reach("right_can_placed", True)
    notes.reach("right_can_placed", False)
    assert notes.milestones == ("right_can_placed",)
    notes.keep("right_can_placed", False)
    assert notes.milestones == ()
    for can in ("left", "right", "left"):
        notes.penalize("can_knocked", True, can)
    assert notes.penalties == {"can_knocked": 2}
    notes.pardon("can_knocked", "left")
    assert notes.penalties == {"can_knocked": 1}
    assert [notes.steady("calm", held, steps=2) for held in (True, True, False, True)] == [False, True, False, False]
    with pytest.raises(KeyError):
        notes.reach("no_such_milestone", True)


@pytest.mark.parametrize("name", ["stack_bowls", "hang_cup", "place_fruits", "fold_towel"])
def test_a_camera_shows_the_same_whichever_others_are_drawn_and_in_whatever_order(env_of, name):
    env, size, parts = env_of(name), (48, 64), ((3, 2, 1, 0), (1, 2), (2,), (0, 3), (1,))
    env.reset(2)
    policy = expert(env, None)
    for step in range(200):
        if step % 10 == 0:
            expected = env.observe(size).images
            for cameras in ([CAMERAS[i] for i in part] for part in parts):
                drawn = env.observe(size, cameras).images
                assert tuple(drawn) == tuple(cameras)
                for camera, image in drawn.items():
                    assert (image == expected[camera]).all(), (step, cameras, camera)
        env.step(policy.act())


def test_every_camera_shows_something_else(env_of):
    env = env_of("stack_bowls")
    env.reset(2)
    images = [image.astype(int) for image in env.observe((48, 64)).images.values()]
    assert all(np.abs(one - other).mean() > 5 for one, other in combinations(images, 2))


@pytest.mark.parametrize("name", ["stack_bowls", "fold_towel"])
def test_pictures_do_not_depend_on_earlier_episodes(env_of, name):
    env, size = env_of(name), (48, 64)

    def episode(seed: int) -> list[np.ndarray]:
        env.reset(seed)
        policy, drawn = expert(env, None), []
        for _ in range(40):
            drawn += env.observe(size).images.values()
            env.step(policy.act())
        return drawn

    first, other = episode(2), episode(3)
    env.reset(4)
    run(env, expert(env, None))  # another one, with all that it does to cloth and hands
    assert all((one == again).all() for one, again in zip(first, episode(2), strict=True))
    assert any((one != another).any() for one, another in zip(first, other, strict=True))
