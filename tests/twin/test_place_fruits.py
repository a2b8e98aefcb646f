"""Each milestone and penalty of place_fruits, reached by a script that should reach exactly that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.place_fruits import FRUITS, PlaceFruits

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
DRAGON = ("dragon_fruit_grasped", "dragon_fruit_placed")
FULL = (*DRAGON, "banana_grasped", "banana_placed", "persimmon_grasped", "persimmon_placed")


def lift_and_put_back(task: PlaceFruits, hand: Driver, fruit: str) -> Script:
    yield from task.lift(hand, fruit)
    yield from hand.move(hand.position - 0.095 * UP, speed=0.15)
    yield from hand.grip(0.07)
    yield from hand.home()


def after_dragon_fruit(
    right: Callable[[PlaceFruits, Driver, set[str]], Script],
) -> Callable[[PlaceFruits, Drivers], Scripts]:
    """The left arm does its part, then the right arm something else than it should."""

    def scripts(task: PlaceFruits, drivers: Drivers) -> Scripts:
        done: set[str] = set()

        def waiting(hand: Driver) -> Script:
            yield from hand.wait(lambda: "dragon_fruit" in done)
            yield from right(task, hand, done)

        return {
            "left": task.fill(drivers["left"], ["dragon_fruit"], done),
            "right": waiting(drivers["right"]),
        }

    return scripts


def fill_with(*fruits: str) -> Callable[[PlaceFruits, Driver, set[str]], Script]:
    return lambda task, hand, done: task.fill(hand, fruits, done)


def banana_then_lift(task: PlaceFruits, hand: Driver, done: set[str]) -> Script:
    yield from task.fill(hand, ["banana"], done)
    yield from lift_and_put_back(task, hand, "persimmon")


def dragon_fruit_only(task: PlaceFruits, drivers: Drivers) -> Scripts:
    return {"left": task.fill(drivers["left"], ["dragon_fruit"], set())}


def lift_dragon_fruit(task: PlaceFruits, drivers: Drivers) -> Scripts:
    return {"left": lift_and_put_back(task, drivers["left"], "dragon_fruit")}


def take_dragon_fruit_out(task: PlaceFruits, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.fill(hand, ["dragon_fruit"], set())
        point = task.world.position("dragon_fruit")
        yield from hand.pick(point, task.world.yaw("dragon_fruit"), lift=0.12)

    return {"left": script(drivers["left"])}


def banana_at_once(task: PlaceFruits, drivers: Drivers) -> Scripts:
    """The right arm waits with the banana in the air until the dragon fruit is in."""
    done: set[str] = set()

    def right(hand: Driver) -> Script:
        yield from task.lift(hand, "banana")
        yield from hand.wait(lambda: "dragon_fruit" in done)
        yield from hand.wait(seconds=2)
        yield from task.drop(hand, "banana")
        yield from hand.move(hand.position + 0.07 * UP)
        yield from task.fill(hand, ["persimmon"], done)

    return {"left": task.fill(drivers["left"], ["dragon_fruit"], done), "right": right(drivers["right"])}


def touch_banana(task: PlaceFruits, drivers: Drivers) -> Scripts:
    """Closed fingers press on the banana and go away."""

    def script(hand: Driver) -> Script:
        point = task.world.to_world("banana", FRUITS["banana"].grip)
        yield from hand.move(point + 0.08 * UP, hand.down(point, 0.0), opening=0.0)
        yield from hand.move(point + 0.020 * UP, speed=0.1)
        yield from hand.home()

    return {"right": script(drivers["right"])}


@SEEDS
@pytest.mark.parametrize(
    ("script", "reached"),
    [
        (lift_dragon_fruit, DRAGON[:1]),
        (dragon_fruit_only, DRAGON),
        (after_dragon_fruit(lambda task, hand, _: lift_and_put_back(task, hand, "banana")), FULL[:3]),
        (after_dragon_fruit(fill_with("banana")), FULL[:4]),
    ],
    ids=FULL[:4],
)
def test_half_the_way_gives_its_milestones_only(play, seed, script, reached):
    trial = play("place_fruits", script, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (reached, {}, False)


@SEEDS
def test_lifting_the_persimmon_last_gives_its_grasp(play, seed):
    trial = play("place_fruits", after_dragon_fruit(banana_then_lift), seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL[:5], {}, False)


@SEEDS
def test_the_whole_script_places_all(play, seed):
    trial = play("place_fruits", PlaceFruits.scripts, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL, {}, True)


@SEEDS
def test_a_fruit_taken_out_again_is_no_longer_placed(play, seed):
    trial = play("place_fruits", take_dragon_fruit_out, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (DRAGON[:1], {}, False)


@SEEDS
def test_a_right_arm_that_starts_early_is_penalized(play, seed):
    trial = play("place_fruits", banana_at_once, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL, {"right_arm_early": 1}, True)


@SEEDS
def test_touching_the_banana_is_starting_on_it(play, seed):
    trial = play("place_fruits", touch_banana, seed)
    assert (trial.milestones, trial.penalties, trial.final) == ((), {"right_arm_early": 1}, False)


@SEEDS
def test_taking_the_persimmon_first_is_penalized(play, seed):
    trial = play("place_fruits", after_dragon_fruit(fill_with("persimmon", "banana")), seed)
    assert (trial.milestones, trial.penalties, trial.final) == (FULL, {"persimmon_first": 1}, True)
