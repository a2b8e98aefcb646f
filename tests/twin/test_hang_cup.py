"""Each milestone of hang_cup, reached by a script that should reach exactly that."""

from __future__ import annotations

import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.hang_cup import GRASP, HangCup

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


def touch_without_closing(task: HangCup, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        middle = task.world.position("cup") + GRASP
        yield from hand.move(middle + 0.08 * UP, hand.down(middle, task.world.yaw("cup")))
        yield from hand.move(middle, speed=0.12)
        yield from hand.move(middle + 0.08 * UP)

    return {"left": script(drivers["left"])}


def lift_and_put_back(task: HangCup, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        yield from hand.move(hand.position - 0.10 * UP, speed=0.15)
        yield from hand.grip(0.07)

    return {"left": script(drivers["left"])}


def carry_and_go_back(task: HangCup, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        back = hand.position.copy()
        yield from task.carry(hand)
        yield from hand.move(back)
        yield from hand.wait(seconds=1)

    return {"left": script(drivers["left"])}


def insert_and_hold(task: HangCup, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        yield from task.carry(hand)
        yield from task.insert(hand)
        yield from hand.wait(seconds=1.5)

    return {"left": script(drivers["left"])}


def drop_before_the_peg(task: HangCup, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        yield from task.carry(hand)
        yield from hand.grip(0.07)
        yield from hand.wait(seconds=1.5)

    return {"left": script(drivers["left"])}


def hang_and_take_off(task: HangCup, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.hang(hand)
        yield from hand.move(hand.position - 0.06 * UP, speed=0.15)
        yield from hand.grip(0.0)
        yield from hand.move(hand.position + 0.017 * UP, speed=0.06)
        outwards = task.world.site("peg_tip") - task.world.site("peg_root")
        yield from hand.move(hand.position + 1.2 * outwards, speed=0.1)

    return {"left": script(drivers["left"])}


@SEEDS
def test_reaching_without_closing_gives_nothing(play, seed):
    trial = play("hang_cup", touch_without_closing, seed)
    assert (trial.milestones, trial.final) == ((), False)


@SEEDS
def test_lifting_and_putting_back_gives_only_grasped(play, seed):
    trial = play("hang_cup", lift_and_put_back, seed)
    assert (trial.milestones, trial.final) == (("grasped",), False)


@SEEDS
def test_carrying_to_the_peg_and_back_gives_near_peg(play, seed):
    trial = play("hang_cup", carry_and_go_back, seed)
    assert (trial.milestones, trial.final) == (("grasped", "near_peg"), False)


@SEEDS
def test_dropping_the_cup_before_the_peg_does_not_insert_it(play, seed):
    trial = play("hang_cup", drop_before_the_peg, seed)
    assert (trial.milestones, trial.final) == (("grasped", "near_peg"), False)


@SEEDS
def test_a_cup_on_the_peg_that_is_not_let_go_is_only_inserted(play, seed):
    trial = play("hang_cup", insert_and_hold, seed)
    assert (trial.milestones, trial.final) == (("grasped", "near_peg", "inserted"), False)


@SEEDS
def test_the_whole_script_hangs_the_cup(play, seed):
    trial = play("hang_cup", HangCup.scripts, seed)
    assert (trial.milestones, trial.final) == (("grasped", "near_peg", "inserted", "hung"), True)


@SEEDS
def test_a_cup_taken_off_again_is_no_longer_hung(play, seed):
    trial = play("hang_cup", hang_and_take_off, seed)
    assert (trial.milestones, trial.final) == (("grasped", "near_peg", "inserted"), False)
