"""Each milestone of pack_bag, reached by a script that should reach exactly that."""

from __future__ import annotations

import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.pack_bag import PackBag

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
SIDES = pytest.mark.parametrize("side", ["right", "left"])
LIDS = ("right_lid_reached", "left_lid_reached", "right_lid_closed", "left_lid_closed")
ALL = ("bag_lifted", "bag_placed", *LIDS)


def lift_and_put_back(task: PackBag, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        yield from hand.move(hand.position - 0.138 * UP, speed=0.15)
        yield from hand.grip(0.064)

    return {"right": script(drivers["right"])}


def hold_over_the_box(task: PackBag, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.lift(hand)
        yield from task.carry(hand)
        yield from hand.wait(seconds=1)

    return {"right": script(drivers["right"])}


def pack_only(task: PackBag, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.pack(hand)
        yield from hand.wait(seconds=0.6)

    return {"right": script(drivers["right"])}


def pack_and_take_out(task: PackBag, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.pack(hand)
        yield from hand.wait(seconds=0.6)
        yield from task.lift(hand)

    return {"right": script(drivers["right"])}


def reach_under(side: str):
    def scripts(task: PackBag, drivers: Drivers) -> Scripts:
        return {side: task.reach_under(drivers[side])}

    return scripts


def shut(side: str):
    def scripts(task: PackBag, drivers: Drivers) -> Scripts:
        return {side: task.shut(drivers[side], {"go"}, after="go")}

    return scripts


def shut_both_lids_of_the_empty_box(task: PackBag, drivers: Drivers) -> Scripts:
    done: set[str] = set()
    return {
        "right": task.shut(drivers["right"], done, after="left under"),
        "left": task.shut(drivers["left"], done, after="right shut"),
    }


def pack_and_shut_the_right_lid(task: PackBag, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.pack(hand)
        yield from task.shut(hand, {"go"}, after="go")

    return {"right": script(drivers["right"])}


def stop_with_the_lid_upright(task: PackBag, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.reach_under(hand)
        yield from task.raise_lid(hand)
        yield from hand.wait(seconds=0.6)

    return {"right": script(drivers["right"])}


@SEEDS
def test_lifting_the_bag_and_putting_it_back_gives_only_lifted(play, seed):
    trial = play("pack_bag", lift_and_put_back, seed)
    assert (trial.milestones, trial.final) == (("bag_lifted",), False)


@SEEDS
def test_a_bag_held_over_the_box_is_not_placed(play, seed):
    trial = play("pack_bag", hold_over_the_box, seed)
    assert (trial.milestones, trial.final) == (("bag_lifted",), False)


@SEEDS
def test_leaving_the_bag_in_the_box_gives_placed(play, seed):
    trial = play("pack_bag", pack_only, seed)
    assert (trial.milestones, trial.final) == (("bag_lifted", "bag_placed"), False)


@SEEDS
def test_a_bag_taken_out_again_is_no_longer_placed(play, seed):
    trial = play("pack_bag", pack_and_take_out, seed)
    assert (trial.milestones, trial.final) == (("bag_lifted",), False)


@SIDES
@SEEDS
def test_going_under_a_lid_gives_only_that_lid_reached(play, seed, side):
    trial = play("pack_bag", reach_under(side), seed)
    assert (trial.milestones, trial.final) == ((f"{side}_lid_reached",), False)


@SEEDS
def test_a_lid_left_upright_is_not_closed(play, seed):
    trial = play("pack_bag", stop_with_the_lid_upright, seed)
    assert (trial.milestones, trial.final) == (("right_lid_reached",), False)


@SIDES
@SEEDS
def test_shutting_a_lid_gives_only_that_lid_closed(play, seed, side):
    trial = play("pack_bag", shut(side), seed)
    assert (trial.milestones, trial.final) == ((f"{side}_lid_reached", f"{side}_lid_closed"), False)


@SEEDS
def test_lids_of_the_empty_box_count_but_the_final_condition_fails(play, seed):
    trial = play("pack_bag", shut_both_lids_of_the_empty_box, seed)
    assert (trial.milestones, trial.final) == (LIDS, False)


@SEEDS
def test_a_packed_box_with_one_lid_open_is_not_finished(play, seed):
    trial = play("pack_bag", pack_and_shut_the_right_lid, seed)
    reached = ("bag_lifted", "bag_placed", "right_lid_reached", "right_lid_closed")
    assert (trial.milestones, trial.final) == (reached, False)


@SEEDS
def test_the_whole_script_packs_and_shuts(play, seed):
    trial = play("pack_bag", PackBag.scripts, seed)
    assert (trial.milestones, trial.final) == (ALL, True)
