"""Each milestone and the penalty of stack_bowls, reached by a script that should reach exactly that."""

from __future__ import annotations

import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.stack_bowls import GRASP, StackBowls

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


def reach_only(task: StackBowls, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        rim = task.world.position("yellow") + GRASP
        yield from hand.move(rim + 0.08 * UP, hand.down(rim, 0.0))
        yield from hand.move(rim, speed=0.12)
        yield from hand.move(rim + 0.08 * UP)

    return {"left": script(drivers["left"])}


def lift_only(task: StackBowls, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        yield from hand.move(hand.position - 0.10 * UP, speed=0.15)
        yield from hand.grip(0.03)

    return {"left": script(drivers["left"])}


def carry_only(task: StackBowls, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        back = hand.position.copy()
        yield from task.carry(hand)
        yield from hand.move(back)
        yield from hand.wait(seconds=1)

    return {"left": script(drivers["left"])}


def stack_and_take_out(task: StackBowls, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.stack(hand)
        yield from task.lift(hand)

    return {"left": script(drivers["left"])}


def tip_green(task: StackBowls, drivers: Drivers) -> Scripts:
    """Press on the rim of the green bowl, outside its foot."""

    def script(hand: Driver) -> Script:
        rim = task.world.position("green") + GRASP
        yield from hand.move(rim + 0.10 * UP, hand.down(rim, 0.0), opening=0.0)
        yield from hand.move(rim + 0.005 * UP, speed=0.1)
        yield from hand.move(rim - 0.03 * UP, speed=0.1)
        yield from hand.wait(seconds=0.5)

    return {"left": script(drivers["left"])}


@SEEDS
def test_reaching_without_grasping_gives_only_reached(play, seed):
    trial = play("stack_bowls", reach_only, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (("reached",), {}, False)


@SEEDS
def test_lifting_and_putting_back_gives_lifted(play, seed):
    trial = play("stack_bowls", lift_only, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (("reached", "lifted"), {}, False)


@SEEDS
def test_carrying_over_and_back_gives_above(play, seed):
    trial = play("stack_bowls", carry_only, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (("reached", "lifted", "above"), {}, False)


@SEEDS
def test_the_whole_script_stacks(play, seed):
    trial = play("stack_bowls", StackBowls.scripts, seed)
    assert (trial.milestones, trial.penalties) == (("reached", "lifted", "above", "stacked"), {})
    assert trial.final


@SEEDS
def test_a_bowl_taken_out_again_is_no_longer_stacked(play, seed):
    trial = play("stack_bowls", stack_and_take_out, seed)
    assert "stacked" not in trial.milestones
    assert not trial.final


@SEEDS
def test_tipping_the_green_bowl_is_penalized_once(play, seed):
    trial = play("stack_bowls", tip_green, seed)
    assert trial.penalties == {"green_bowl_knocked": 1}
    assert trial.milestones == ()
