"""What a scorer makes of one state of the world, set directly: cases that the rubrics' texts decide."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import pytest

from holdfast.embodiments import piper_x_ik as ik
from holdfast.embodiments.piper_x import SIDES, TCP_TO_TIP
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import UP
from holdfast.twin.task import CALM
from holdfast.twin.tasks.cook_bread import CLOTH
from holdfast.twin.tasks.fold_tshirt import CELL, EDGE, NUMBER, OUTWARD, SHOULDER, SLEEVE
from holdfast.twin.tasks.place_cola import HEIGHT, RADIUS
from holdfast.twin.tasks.press_button import ACTIVE, TOP
from holdfast.twin.tasks.stack_bowls import GRASP
from holdfast.twin.world import World


@pytest.fixture
def fresh(env_of):
    """`fresh(task)`: its environment in the nominal layout, nothing moving."""

    def start(task: str) -> CellEnv:
        env = env_of(task)
        env.reset(0, "nominal")
        env.world.data.qvel[:] = 0
        return env

    return start


def put(world: World, body: str, position: Sequence[float] | np.ndarray, rotation: np.ndarray | None = None) -> None:
    """Put a free body anywhere, turned in any way."""
    quat = np.array([1.0, 0, 0, 0])
    if rotation is not None:
        mujoco.mju_mat2Quat(quat, rotation.ravel())
    world.data.joint(world.model.body(body).jntadr[0]).qpos[:] = [*position, *quat]


def put_hand(world: World, side: str, position: np.ndarray) -> None:
    """Put a hand's tool centre point somewhere, pointing down."""
    joints = ik.solve(side, position, ik.down())
    assert joints is not None
    world.data.qpos[world._joints[SIDES.index(side)]] = joints


def open_fingers(world: World, side: str, opening: float) -> None:
    world.data.qpos[world._fingers[SIDES.index(side)]] = opening / 2


def judge(env: CellEnv, steps: int = CALM) -> None:
    """Let the scorer see the state as it is for some control steps."""
    mujoco.mj_forward(env.world.model, env.world.data)
    for _ in range(steps):
        env.scorer.update()


# Cook bread: the pot is set down with the bread in it


def set_pot_down(env: CellEnv, shift: tuple[float, float], bread: bool = True) -> None:
    for milestone in ("bread_lifted", "pot_lifted", "bread_above", "pot_beneath"):
        env.scorer.reach(milestone, True)
    pot = env.world.position("towel") + np.array([*shift, 0])
    put(env.world, "pot", pot)
    if bread:
        put(env.world, "bread", pot + 0.007 * UP)
    judge(env)


@pytest.mark.parametrize(
    ("shift", "on_towel", "penalized"),
    [
        ((0.02, 0.0), True, False),
        ((0.0, 0.04), True, True),
        ((0.07, 0.0), True, True),
        ((0.0, -CLOTH + 0.001), True, True),
        ((0.08, 0.08), True, True),
        ((0.0, -CLOTH - 0.001), False, True),
        ((0.12, 0.0), False, True),
    ],
)
def test_a_pot_is_on_the_towel_when_its_centre_is_and_penalized_beyond_3_cm(fresh, shift, on_towel, penalized):
    env = fresh("cook_bread")
    set_pot_down(env, shift)
    assert ("pot_on_towel" in env.reached().milestones, env.reached().final) == (on_towel, on_towel)
    assert env.reached().penalties == ({"off_centre": 1} if penalized else {})


def test_a_pot_set_down_again_is_judged_again(fresh):
    env = fresh("cook_bread")
    set_pot_down(env, (0.12, 0.0), bread=False)
    assert env.reached().penalties == {"off_centre": 1}
    set_pot_down(env, (0.01, 0.0))
    assert (env.score(), env.reached().penalties) == (100, {})


def test_a_pot_that_was_never_lifted_is_not_penalized(fresh):
    env = fresh("cook_bread")
    judge(env)
    assert env.reached().penalties == {}


# Stack bowls


def test_a_green_bowl_tilted_in_the_hand_is_not_knocked_over_until_it_lies_on_the_table(fresh):
    env = fresh("stack_bowls")
    world = env.world
    position, rotation = world.tcp("left")
    open_fingers(world, "left", 0.003)
    fingers, level = rotation[:, 1], rotation[:, 0]  # the axis along which the fingers close, and the bowl's own axis
    turned = np.column_stack([np.cross(fingers, level), fingers, level])
    put(world, "green", position - turned @ GRASP, turned)
    judge(env)
    assert (world.pads("left", "green"), round(world.up("green"), 3)) == (2, 0)
    assert env.reached().penalties == {}
    put(world, "green", [0.31, 0.05, 0.034], turned)
    judge(env)
    assert env.reached().penalties == {"green_bowl_knocked": 1}


# Place cola


def hold_on_its_side(world: World, body: str, middle: float) -> None:
    """Put a round body between the pads of the left hand, its axis level."""
    position, rotation = world.tcp("left")
    turned = np.column_stack([rotation[:, 1], rotation[:, 2], rotation[:, 0]])
    put(world, body, position - turned @ [0, 0, middle], turned)


def test_a_can_tilted_in_the_hand_is_not_knocked_over_until_it_lies_alone(fresh):
    env = fresh("place_cola")
    world = env.world
    open_fingers(world, "left", 2 * RADIUS - 0.0006)
    hold_on_its_side(world, "left_can", HEIGHT / 2)
    judge(env)
    assert (world.pads("left", "left_can"), round(world.up("left_can"), 3)) == (2, 0)
    assert env.reached().penalties == {}
    put(world, "left_can", [0.3, 0.3, RADIUS], np.array([[0, 0, 1.0], [1, 0, 0], [0, 1, 0]]))
    judge(env)
    assert env.reached().penalties == {"can_knocked": 1}


def test_a_paper_box_is_deformed_only_while_a_can_is_put_in(fresh):
    env = fresh("place_cola")
    env.world.set_joint("far_lean", 0.5)
    judge(env)
    assert env.reached().penalties == {}
    env.scorer.reach("left_can_grasped", True)
    judge(env)
    assert env.reached().penalties == {"box_deformed": 1}


# Fold T-shirt


def fold_sleeve(env: CellEnv, side: str, inwards: float) -> None:
    """Lay all of a sleeve this far inwards of the shoulder."""
    first = env.world.model.jnt_qposadr[env.world.model.body("shirt_0").jntadr[0]]
    for row in SHOULDER:
        for n in range(1, SLEEVE + 1):
            vertex = NUMBER[row, EDGE[side] + n * OUTWARD[side]]
            env.world.data.qpos[first + 3 * vertex + 1] -= OUTWARD[side] * (n * CELL + inwards)


@pytest.mark.parametrize(("right", "left", "score"), [(0.045, 0.045, 40), (0.02, 0.045, 30), (0.02, 0.02, 20)])
def test_each_sleeve_folded_in_part_is_penalized(fresh, right, left, score):
    env = fresh("fold_tshirt")
    fold_sleeve(env, "right", right)
    fold_sleeve(env, "left", left)
    judge(env)
    assert env.reached().milestones == ("right_sleeve_folded", "left_sleeve_folded")
    assert env.score() == pytest.approx(score)


# Press button


def test_a_button_pressed_by_one_finger_of_an_open_hand_was_near(fresh):
    env = fresh("press_button")
    beside = env.world.to_world("cap", [0, 0.04, TOP]) + TCP_TO_TIP * UP
    put_hand(env.world, "left", beside)
    env.world.set_joint("cap", -ACTIVE - 0.001)
    judge(env)
    assert env.reached().milestones == ("near", "pressed")


# Push box


def test_a_box_that_was_moved_can_still_be_approached(fresh):
    env = fresh("push_box")
    put(env.world, "box", env.world.position("box") + np.array([0, 0.02, 0]))
    judge(env)
    middle, ahead, _, reach = env.task.aim()
    open_fingers(env.world, "left", 0.0)
    put_hand(env.world, "left", middle - (reach + 0.01) * ahead)
    judge(env)
    assert env.reached().milestones == ("approached",)
