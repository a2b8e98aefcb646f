"""Cloth: it lies where it is put, does not stretch, and hangs on closed fingers, whoever closes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from holdfast.embodiments.piper_x import SIDES
from holdfast.twin.cloth import flat
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import UP, Driver, Drivers, Expert, Script
from holdfast.twin.scripted import run
from holdfast.twin.tasks.fold_towel import COLUMNS, PINCH, RIGHT, ROWS, SPACING, TOP, FoldTowel

CORNER = TOP * COLUMNS + RIGHT
SIDEWAYS = np.array([0.0, 1.0, 0.0])


@pytest.fixture
def towel(env_of: Callable[[str], CellEnv]) -> CellEnv:
    env = env_of("fold_towel")
    env.reset(0, "nominal")
    return env


def drive(env: CellEnv, script: Callable[[FoldTowel, Driver], Script]) -> FoldTowel:
    def scripts(drivers: Drivers) -> dict[str, Script]:
        return {"left": script(env.task, drivers["left"])}

    run(env, Expert(env.world, scripts))
    return env.task


def hover(task: FoldTowel, hand: Driver, opening: float) -> Script:
    """Come down on the top right corner with fingers as open as asked."""
    point = task.grid()[TOP, RIGHT] + PINCH * UP
    yield from hand.move(point + 0.06 * UP, hand.down(point, 0.0), opening=opening)
    yield from hand.move(point, speed=0.12)


def pinch_and_lift(task: FoldTowel, hand: Driver) -> Script:
    yield from task.pinch(hand, TOP)
    yield from hand.move(hand.position + 0.10 * UP, speed=0.2)
    yield from hand.wait(seconds=0.3)


def test_it_lies_flat_where_it_is_placed(towel):
    points = flat([(i, j) for i in range(ROWS) for j in range(COLUMNS)], SPACING)
    cloth, yaw = towel.task.towel, 0.3
    cloth.place((0.3, 0.1), yaw)
    towel.world.settle(30)
    turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
    assert np.allclose(cloth.vertices[:, :2], points @ turn.T + [0.3, 0.1], atol=1e-3)
    assert cloth.vertices[:, 2].max() < 0.004


def test_closed_fingers_hold_the_nearest_vertex(towel):
    task = drive(towel, pinch_and_lift)
    assert task.towel.held("left") == (CORNER,)
    assert not task.towel.free
    assert task.grid()[TOP, RIGHT, 2] > 0.08


def test_taking_hold_moves_nothing(towel):
    before = towel.task.towel.vertices
    after = drive(towel, lambda task, hand: task.pinch(hand, TOP)).towel
    assert after.held("left") == (CORNER,)
    assert np.allclose(after.vertices, before, atol=1.5e-3)


def test_opened_fingers_let_go(towel):
    def script(task: FoldTowel, hand: Driver) -> Script:
        yield from pinch_and_lift(task, hand)
        yield from task.release(hand)
        yield from hand.wait(seconds=1)

    task = drive(towel, script)
    assert task.towel.free
    assert task.grid()[..., 2].max() < 0.02


def test_fingers_take_hold_only_when_they_close_on_the_cloth(towel):
    def closed_before(task: FoldTowel, hand: Driver) -> Script:
        yield from hover(task, hand, opening=0.0)
        yield from hand.move(hand.position + 0.06 * UP)

    def closed_above(task: FoldTowel, hand: Driver) -> Script:
        yield from hover(task, hand, opening=0.05)
        yield from hand.move(hand.position + 0.06 * UP)
        yield from hand.grip(0.0)

    for script in (closed_before, closed_above):
        towel.reset(0, "nominal")
        task = drive(towel, script)
        assert task.towel.free
        assert task.grid()[..., 2].max() < 0.004


def test_a_reset_frees_held_cloth(towel):
    task = drive(towel, pinch_and_lift)
    towel.reset(0, "nominal")
    assert task.towel.free
    towel.world.settle(30)
    assert task.grid()[..., 2].max() < 0.004


def test_threads_do_not_stretch(towel):
    longest = 0.0
    expert = Expert(towel.world, lambda drivers: {"left": towel.task.fold_over(drivers["left"], TOP, 0.11)})
    while (action := expert.act()) is not None:
        towel.step(action)
        grid = towel.task.grid()
        for axis, rest in enumerate(SPACING):
            longest = max(longest, np.linalg.norm(np.diff(grid, axis=axis), axis=2).max() / rest)
    assert longest < 1.15


def test_cloth_pulled_apart_by_two_hands_stays_whole(env_of):
    env = env_of("fold_tshirt")
    env.reset(0, "nominal")

    def scripts(hands: Drivers) -> dict[str, Script]:
        def pull(hand: Driver) -> Script:
            yield from env.task.grasp_sides({hand.side: hand})
            yield from hand.wait(lambda: all(env.task.shirt.held(side) for side in SIDES))
            yield from hand.move(hand.position + (0.10 if hand.side == "left" else -0.10) * SIDEWAYS + 0.05 * UP)
            yield from hand.wait(seconds=1)
            yield from env.task.release(hand)
            yield from hand.wait(seconds=1)

        return {side: pull(hand) for side, hand in hands.items()}

    run(env, Expert(env.world, scripts))
    points = env.task.shirt.vertices
    assert np.isfinite(points).all()
    assert points[:, 2].max() < 0.05
    assert np.ptp(points[:, 1]) < 0.35
