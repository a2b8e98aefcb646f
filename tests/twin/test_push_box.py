"""Each milestone of push_box, reached by a script that should reach exactly that."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.push_box import HALF, HAND, PushBox

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
ALL = ("approached", "touched", "pushed", "in_area")


def approach_only(task: PushBox, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from hand.grip(0.0)
        yield from task.approach(hand)
        yield from hand.home()

    return {"left": script(drivers["left"])}


def come_from_the_front(task: PushBox, drivers: Drivers) -> Scripts:
    """Push the box away from the area."""

    def script(hand: Driver) -> Script:
        middle, ahead, _, reach = task.aim()
        front = middle + (reach + 0.02) * ahead
        yield from hand.grip(0.0)
        yield from hand.move(front + 0.08 * UP, task.facing(hand, front, ahead))
        yield from hand.move(front, speed=0.15)
        yield from hand.move(front - 0.05 * ahead, speed=0.12)
        yield from hand.home()

    return {"left": script(drivers["left"])}


def touch_only(task: PushBox, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from hand.grip(0.0)
        yield from task.approach(hand)
        middle, ahead, _, reach = task.aim()
        yield from hand.move(middle - (reach - 0.008) * ahead, speed=0.08)
        yield from hand.move(hand.position - 0.02 * ahead, speed=0.1)
        yield from hand.home()

    return {"left": script(drivers["left"])}


def push_most_of_the_way(task: PushBox, drivers: Drivers) -> Scripts:
    """Stop well before the area, but past half the way."""

    def script(hand: Driver) -> Script:
        yield from hand.grip(0.0)
        yield from task.approach(hand)
        start = task.aim()[2]
        while (aimed := task.aim())[2] > 0.44 * start:
            middle, ahead, distance, reach = aimed
            behind = middle - (reach + 0.02) * ahead
            yield from hand.move(behind, task.facing(hand, behind, ahead), speed=0.15)
            yield from hand.move(middle + (min(0.03, distance - 0.41 * start) - reach) * ahead, speed=0.1)
            yield from hand.move(hand.position - 0.02 * ahead, speed=0.15)
        yield from hand.home(opening=0.0)

    return {"left": script(drivers["left"])}


def push_through(task: PushBox, drivers: Drivers) -> Scripts:
    """Push the box in, then on and out at the other side."""

    def script(hand: Driver) -> Script:
        yield from task.push(hand)
        middle, area = task.world.position("box"), task.world.position("area")
        ahead = np.array([0.0, -1.0, 0.0])
        behind = np.array([middle[0], middle[1] + HALF + 0.04, HAND])
        yield from hand.move(behind + 0.08 * UP, task.facing(hand, behind, ahead))
        yield from hand.move(behind, speed=0.15)
        yield from hand.move([middle[0], area[1], HAND], speed=0.12)
        yield from hand.home(opening=0.0)

    return {"left": script(drivers["left"])}


def push_with_open_fingers(task: PushBox, drivers: Drivers) -> Scripts:
    """The whole push, but the fingers open for a moment while they touch the box."""

    def script(hand: Driver) -> Script:
        yield from hand.grip(0.0)
        yield from task.approach(hand)
        middle, ahead, _, reach = task.aim()
        yield from hand.move(middle - (reach - 0.006) * ahead, speed=0.08)
        yield from hand.grip(0.03)
        yield from hand.grip(0.0)
        yield from hand.move(hand.position - 0.03 * ahead, speed=0.1)
        yield from task.push(hand)

    return {"left": script(drivers["left"])}


@SEEDS
def test_coming_up_to_the_box_gives_only_approached(play, seed):
    trial = play("push_box", approach_only, seed)
    assert (trial.milestones, trial.final) == (("approached",), False)


@SEEDS
def test_pushing_from_the_wrong_side_gives_nothing(play, seed):
    trial = play("push_box", come_from_the_front, seed)
    assert (trial.milestones, trial.final) == ((), False)


@SEEDS
def test_touching_without_pushing_on_gives_touched(play, seed):
    trial = play("push_box", touch_only, seed)
    assert (trial.milestones, trial.final) == (("approached", "touched"), False)


@SEEDS
def test_stopping_before_the_area_gives_pushed(play, seed):
    trial = play("push_box", push_most_of_the_way, seed)
    assert (trial.milestones, trial.final) == (("approached", "touched", "pushed"), False)


@SEEDS
def test_the_whole_script_pushes_the_box_in(play, seed):
    trial = play("push_box", PushBox.scripts, seed)
    assert (trial.milestones, trial.final) == (ALL, True)


@SEEDS
def test_a_box_pushed_out_again_is_no_longer_in_the_area(play, seed):
    trial = play("push_box", push_through, seed)
    assert (trial.milestones, trial.final) == (("approached", "touched", "pushed"), False)


@SEEDS
def test_fingers_that_open_while_pushing_spoil_the_final_condition(play, seed):
    trial = play("push_box", push_with_open_fingers, seed)
    assert (trial.milestones, trial.final) == (ALL, False)
