"""Each milestone and penalty of fold_tshirt, reached by a script that should reach exactly that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from holdfast.twin.expert import UP, Drivers, Script, Scripts
from holdfast.twin.tasks.fold_tshirt import EDGE, HALVES, QUARTERS, FoldTshirt, both, misfit

SEEDS = pytest.mark.parametrize("seed", [0, 1])
SLEEVES = ("right_sleeve_folded", "left_sleeve_folded")
HALVED = (*SLEEVES, "sides_grasped", "halved")


def with_both_hands(script: Callable[[FoldTshirt, Drivers], Script]) -> Callable[[FoldTshirt, Drivers], Scripts]:
    """One script moves both arms, as the expert's does."""

    def scripts(task: FoldTshirt, drivers: Drivers) -> Scripts:
        done: set[str] = set()

        def left() -> Script:
            yield from script(task, drivers)
            yield from drivers["left"].wait(seconds=0.8)
            done.add("all")

        return {"left": left(), "right": drivers["right"].wait(lambda: "all" in done, at_most=60)}

    return scripts


@with_both_hands
def right_sleeve(task: FoldTshirt, hands: Drivers) -> Script:
    yield from task.fold_sleeve(hands["right"])


@with_both_hands
def left_sleeve(task: FoldTshirt, hands: Drivers) -> Script:
    yield from task.fold_sleeve(hands["left"])


@with_both_hands
def part_of_left_sleeve(task: FoldTshirt, hands: Drivers) -> Script:
    yield from task.fold_sleeve(hands["left"], share=0.75)


@with_both_hands
def sides(task: FoldTshirt, hands: Drivers) -> Script:
    yield from task.grasp_sides(hands)
    yield from both(*(task.release(hand) for hand in hands.values()))


@with_both_hands
def one_side(task: FoldTshirt, hands: Drivers) -> Script:
    for side in ("left", "right"):
        yield from task.grasp_sides({side: hands[side]})
        yield from task.release(hands[side])


def to_half(task: FoldTshirt, hands: Drivers) -> Script:
    yield from task.fold_sleeve(hands["right"])
    yield from task.fold_sleeve(hands["left"])
    yield from task.grasp_sides(hands)
    yield from task.halve(hands)


def crumple(task: FoldTshirt, hands: Drivers) -> Script:
    """Drag one corner across the shirt to the other side."""
    hand = hands["left"]
    across, along, yaw = task.axes()
    yield from task.pinch(hand, task.at(0, EDGE["left"]), yaw)
    yield from hand.move(hand.position - 0.16 * across + 0.06 * along + 0.03 * UP)
    yield from task.release(hand)


@with_both_hands
def half(task: FoldTshirt, hands: Drivers) -> Script:
    yield from to_half(task, hands)


@with_both_hands
def half_then_crumple(task: FoldTshirt, hands: Drivers) -> Script:
    yield from to_half(task, hands)
    yield from crumple(task, hands)


@with_both_hands
def quarter_then_lift(task: FoldTshirt, hands: Drivers) -> Script:
    yield from to_half(task, hands)
    yield from task.quarter(hands)
    yield from task.grasp_sides(hands)


@SEEDS
@pytest.mark.parametrize(("script", "found"), [(right_sleeve, SLEEVES[0]), (left_sleeve, SLEEVES[1])])
def test_a_sleeve_gives_only_its_own_milestone(play, script, found, seed):
    trial = play("fold_tshirt", script, seed)
    assert (trial.milestones, trial.penalties, trial.final) == ((found,), {}, False)


@SEEDS
def test_a_sleeve_folded_in_part_counts_and_is_penalized(play, seed):
    trial = play("fold_tshirt", part_of_left_sleeve, seed)
    assert (trial.milestones, trial.penalties) == (("left_sleeve_folded",), {"sleeve_partial": 1})


@SEEDS
def test_holding_both_sides_at_once_gives_sides_grasped(play, seed):
    trial = play("fold_tshirt", sides, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (("sides_grasped",), {}, False)


def test_holding_one_side_after_the_other_gives_nothing(play):
    assert play("fold_tshirt", one_side).milestones == ()


@SEEDS
def test_one_body_fold_gives_halved(play, seed):
    trial = play("fold_tshirt", half, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (HALVED, {}, False)


@SEEDS
def test_the_whole_script_folds_to_a_quarter(play, seed):
    trial = play("fold_tshirt", FoldTshirt.scripts, seed)
    assert (trial.milestones, trial.penalties, trial.final) == ((*HALVED, "quartered"), {}, True)


@SEEDS
def test_a_mess_after_the_first_fold_is_penalized(play, seed):
    trial = play("fold_tshirt", half_then_crumple, seed)
    assert (trial.milestones, trial.penalties, trial.final) == (HALVED, {"disordered": 1}, False)


def test_a_mess_before_the_first_fold_is_not_penalized(play):
    trial = play("fold_tshirt", with_both_hands(crumple))
    assert (trial.milestones, trial.penalties) == ((), {})


def test_a_tshirt_taken_up_again_is_no_longer_quartered(play):
    trial = play("fold_tshirt", quarter_then_lift)
    assert (trial.milestones, trial.final) == (HALVED, False)


def test_misfit_ignores_where_and_how_turned_the_pattern_lies():
    for pattern in (*HALVES, *QUARTERS):
        turned = pattern @ np.array([[0.6, 0.8], [0.8, -0.6]]) + [0.3, -0.2]
        assert misfit(turned, pattern) < 1e-9
    assert min(misfit(HALVES[0], pattern) for pattern in QUARTERS) > 0.025
