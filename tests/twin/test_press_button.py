"""Each milestone of press_button, reached by a script that should reach exactly that."""

from __future__ import annotations

import pytest

from holdfast.embodiments.piper_x import TCP_TO_TIP
from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.press_button import TOP, PressButton

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


def align_only(task: PressButton, drivers: Drivers) -> Scripts:
    return {"left": task.approach(drivers["left"], height=0.06)}


def come_near_beside(task: PressButton, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        beside = task.world.to_world("cap", [0.0, 0.026, TOP + 0.005]) + TCP_TO_TIP * UP
        yield from hand.move(beside + 0.06 * UP, hand.down(beside, 0.0), opening=0.0)
        yield from hand.move(beside, speed=0.1)
        yield from hand.wait(seconds=0.3)

    return {"left": script(drivers["left"])}


def touch_lightly(task: PressButton, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.approach(hand, height=0.06)
        yield from task.approach(hand, height=-0.003)

    return {"left": script(drivers["left"])}


@SEEDS
def test_pointing_at_the_button_gives_only_aligned(play, seed):
    trial = play("press_button", align_only, seed)
    assert (trial.milestones, trial.final) == (("aligned",), False)


@SEEDS
def test_coming_near_beside_the_button_gives_only_near(play, seed):
    trial = play("press_button", come_near_beside, seed)
    assert (trial.milestones, trial.final) == (("near",), False)


@SEEDS
def test_touching_without_pressing_through_does_not_activate(play, seed):
    trial = play("press_button", touch_lightly, seed)
    assert (trial.milestones, trial.final) == (("aligned", "near"), False)


@SEEDS
def test_the_whole_script_presses(play, seed):
    trial = play("press_button", PressButton.scripts, seed)
    assert (trial.milestones, trial.final) == (("aligned", "near", "pressed"), True)
