"""Each milestone and the penalty of cook_bread, reached by a script that should reach exactly that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.cook_bread import CookBread

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
FULL = ("bread_lifted", "pot_lifted", "bread_above", "pot_beneath", "bread_in_pot", "pot_on_towel")


def alone(side: str, *phases: Callable[[CookBread, Driver], Script]) -> Callable[[CookBread, Drivers], Scripts]:
    """One arm runs some phases of the task; the other holds still."""

    def script(task: CookBread, hand: Driver) -> Script:
        for phase in phases:
            yield from phase(task, hand)

    return lambda task, drivers: {side: script(task, drivers[side])}


def put_bread_back(task: CookBread, hand: Driver) -> Script:
    yield from hand.move(hand.position - 0.12 * UP, speed=0.2)
    yield from hand.grip(0.06)


def fetch_pot_beneath(task: CookBread, drivers: Drivers) -> Scripts:
    """The bread is never let go."""
    done: set[str] = set()

    def left(hand: Driver) -> Script:
        yield from task.lift_bread(hand)
        yield from task.hold_bread_over(hand)
        done.add("bread above")
        yield from hand.wait(seconds=8)

    return {"left": left(drivers["left"]), "right": task.right(drivers["right"], done)}


def cook_beside(shift: float) -> Callable[[CookBread, Drivers], Scripts]:
    """The whole task, but the pot is set down this far from the towel's centre."""

    def scripts(task: CookBread, drivers: Drivers) -> Scripts:
        done: set[str] = set()

        def right(hand: Driver) -> Script:
            yield from task.lift_pot(hand)
            yield from hand.wait(lambda: "bread above" in done)
            yield from task.hold_pot_over(hand, task.world.position("towel"))
            done.add("pot beneath")
            yield from hand.wait(lambda: "bread in pot" in done)
            yield from hand.wait(seconds=1)
            yield from task.hold_pot_over(hand, task.world.position("towel") - [0, shift, 0])
            yield from task.set_pot_down(hand)
            yield from hand.wait(seconds=0.6)

        return {"left": task.left(drivers["left"], done), "right": right(drivers["right"])}

    return scripts


def cook_and_carry_off(task: CookBread, drivers: Drivers) -> Scripts:
    done: set[str] = set()

    def right(hand: Driver) -> Script:
        yield from task.right(hand, done)
        yield from task.lift_pot(hand)

    return {"left": task.left(drivers["left"], done), "right": right(drivers["right"])}


def hold_pot_over_towel(task: CookBread, hand: Driver) -> Script:
    yield from task.hold_pot_over(hand, task.world.position("towel"))


@SEEDS
@pytest.mark.parametrize(
    ("script", "reached", "penalties"),
    [
        (alone("left", CookBread.lift_bread, put_bread_back), ("bread_lifted",), {}),
        (alone("right", CookBread.lift_pot, CookBread.set_pot_down), ("pot_lifted",), {"off_centre": 1}),
        (alone("left", CookBread.lift_bread, CookBread.hold_bread_over), ("bread_lifted", "bread_above"), {}),
        (fetch_pot_beneath, ("bread_lifted", "pot_lifted", "bread_above", "pot_beneath"), {}),
        (cook_beside(0.12), FULL[:5], {"off_centre": 1}),
    ],
    ids=["bread_lifted", "pot_lifted", "bread_above", "pot_beneath", "bread_in_pot"],
)
def test_half_the_way_gives_its_milestones_only(play, seed, script, reached, penalties):
    trial = play("cook_bread", script, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (reached, penalties, False)


@SEEDS
def test_the_whole_script_cooks(play, seed):
    trial = play("cook_bread", CookBread.scripts, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL, {}, True)


@SEEDS
def test_a_pot_set_down_off_centre_is_penalized(play, seed):
    trial = play("cook_bread", cook_beside(0.045), seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL, {"off_centre": 1}, True)


@SEEDS
def test_a_pot_carried_off_again_is_no_longer_on_the_towel(play, seed):
    trial = play("cook_bread", cook_and_carry_off, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL[:5], {}, False)


@SEEDS
def test_an_empty_pot_on_the_towel_earns_only_the_lift(play, seed):
    empty = alone("right", CookBread.lift_pot, hold_pot_over_towel, CookBread.set_pot_down)
    trial = play("cook_bread", empty, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (("pot_lifted",), {}, False)
