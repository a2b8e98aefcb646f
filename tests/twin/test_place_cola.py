"""Each milestone and penalty of place_cola, reached by a script that should reach exactly that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.place_cola import GRIP, INNER, SIGN, WALL, PlaceCola

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
SIDE = pytest.mark.parametrize("side", ["right", "left"])
FULL = ("right_can_grasped", "right_can_placed", "left_can_grasped", "left_can_placed")


def alone(side: str, phase: Callable[[PlaceCola, Driver], Script]) -> Callable[[PlaceCola, Drivers], Scripts]:
    return lambda task, drivers: {side: phase(task, drivers[side])}


def lift_and_put_back(task: PlaceCola, hand: Driver) -> Script:
    yield from task.lift(hand)
    yield from hand.move(hand.position - 0.083 * UP, speed=0.15)
    yield from hand.grip(0.065)
    yield from hand.home()


def put(task: PlaceCola, hand: Driver) -> Script:
    yield from task.put(hand, set())


def put_and_take_out(task: PlaceCola, hand: Driver) -> Script:
    yield from task.put(hand, set())
    yield from task.lift(hand)


def knock(task: PlaceCola, hand: Driver) -> Script:
    """Sweep the can off its feet with the closed hand, from outside."""
    outwards = [0, SIGN[hand.side], 0]
    can = task.world.position(f"{hand.side}_can") + GRIP * UP
    start, end = can + [0.08 * o for o in outwards], can - [0.05 * o for o in outwards]
    yield from hand.move(start + 0.08 * UP, hand.down(start, 0.0), opening=0.0)
    yield from hand.move(start)
    yield from hand.move(end)
    yield from hand.wait(seconds=0.5)


def crush(task: PlaceCola, hand: Driver) -> Script:
    """Press the closed hand onto the top of a wall."""
    top = task.world.to_world("box", [0, SIGN[hand.side] * INNER[1], WALL]) + 0.015 * UP
    yield from hand.move(top + 0.08 * UP, hand.down(top, 0.0), opening=0.0)
    yield from hand.move(top - 0.03 * UP, speed=0.1)
    yield from hand.wait(seconds=0.3)


def lift_and_crush(task: PlaceCola, hand: Driver) -> Script:
    yield from lift_and_put_back(task, hand)
    yield from crush(task, hand)


def set_can_on_wall(task: PlaceCola, hand: Driver) -> Script:
    """Lower the can onto the wall instead of beside it."""
    yield from task.lift(hand)
    yield from task.carry(hand, slot=INNER[1])
    yield from task.lower(hand)
    yield from hand.wait(seconds=0.3)


@SEEDS
@SIDE
def test_lifting_and_putting_back_gives_only_the_grasp(play, seed, side):
    trial = play("place_cola", alone(side, lift_and_put_back), seed)
    assert (trial.milestones, trial.penalties, trial.final) == ((f"{side}_can_grasped",), {}, False)


@SEEDS
@SIDE
def test_one_can_in_the_box_is_half_the_task(play, seed, side):
    trial = play("place_cola", alone(side, put), seed)
    assert trial.milestones == (f"{side}_can_grasped", f"{side}_can_placed")
    assert (trial.penalties, trial.final) == ({}, False)


@SEEDS
def test_the_whole_script_places_both(play, seed):
    trial = play("place_cola", PlaceCola.scripts, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL, {}, True)


@SEEDS
def test_a_can_taken_out_again_is_no_longer_placed(play, seed):
    trial = play("place_cola", alone("right", put_and_take_out), seed)
    assert (trial.milestones, trial.penalties, trial.final) == (("right_can_grasped",), {}, False)


@SEEDS
@SIDE
def test_a_knocked_can_is_penalized(play, seed, side):
    trial = play("place_cola", alone(side, knock), seed)
    assert (trial.milestones, trial.penalties, trial.final) == ((), {"can_knocked": 1}, False)


@SEEDS
def test_each_knocked_can_is_penalized(play, seed):
    trial = play("place_cola", lambda task, drivers: {side: knock(task, drivers[side]) for side in SIGN}, seed)
    assert (trial.milestones, trial.penalties) == ((), {"can_knocked": 2})


@SEEDS
@pytest.mark.parametrize(
    ("script", "reached", "penalties"),
    [(crush, (), {}), (lift_and_crush, ("right_can_grasped",), {"box_deformed": 1})],
    ids=["no can taken", "after a grasp"],
)
def test_a_crushed_box_is_penalized_once_a_can_was_taken(play, seed, script, reached, penalties):
    trial = play("place_cola", alone("right", script), seed)
    assert (trial.milestones, trial.penalties, trial.final) == (reached, penalties, False)


@SEEDS
@SIDE
def test_a_can_pressed_onto_a_wall_deforms_the_box(play, seed, side):
    trial = play("place_cola", alone(side, set_can_on_wall), seed)
    assert (trial.milestones, trial.penalties) == ((f"{side}_can_grasped",), {"box_deformed": 1})
