"""Each milestone of fold_towel, reached by a script that should reach exactly that."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.twin.expert import UP, Driver, Drivers, Script, Scripts
from holdfast.twin.tasks.fold_towel import BOTTOM, PINCH, RIGHT, TOP, FoldTowel

SEEDS = pytest.mark.parametrize("seed", [0, 1])
HANDLED = ("top_corner_reached", "top_corner_grasped", "top_corner_moved", "bottom_corner_moved")


def reach_only(task: FoldTowel, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        corner = task.grid()[TOP, RIGHT] + PINCH * UP
        yield from hand.move(corner + 0.06 * UP, hand.down(corner, 0.0))
        yield from hand.move(corner, speed=0.12)
        yield from hand.move(corner + 0.06 * UP)

    return {"left": script(drivers["left"])}


def lift_only(task: FoldTowel, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.pinch(hand, TOP)
        yield from hand.move(hand.position + 0.04 * UP)
        yield from hand.move(hand.position - 0.04 * UP)
        yield from task.release(hand)

    return {"left": script(drivers["left"])}


def fold_top_only(task: FoldTowel, drivers: Drivers) -> Scripts:
    return {"left": task.fold_over(drivers["left"], TOP, 0.11)}


def fold_bottom_only(task: FoldTowel, drivers: Drivers) -> Scripts:
    return {"left": task.fold_over(drivers["left"], BOTTOM, 0.08)}


def fold_untidily(task: FoldTowel, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.fold_over(hand, TOP, 0.11)
        yield from task.fold_over(hand, BOTTOM, 0.08)
        yield from hand.wait(seconds=1)

    return {"left": script(drivers["left"])}


def fold_and_unfold(task: FoldTowel, drivers: Drivers) -> Scripts:
    def script(hand: Driver) -> Script:
        yield from task.fold(hand)
        yield from task.pinch(hand, TOP)
        yield from hand.move(hand.position + np.array([0, -0.10, 0.05]))
        yield from task.release(hand)

    return {"left": script(drivers["left"])}


@SEEDS
def test_reaching_without_grasping_gives_only_reached(play, seed):
    trial = play("fold_towel", reach_only, seed)
    assert (trial.milestones, trial.final) == (("top_corner_reached",), False)


@SEEDS
def test_lifting_the_corner_and_putting_it_back_gives_grasped(play, seed):
    trial = play("fold_towel", lift_only, seed)
    assert (trial.milestones, trial.final) == (("top_corner_reached", "top_corner_grasped"), False)


@SEEDS
def test_folding_the_top_corner_gives_top_corner_moved(play, seed):
    trial = play("fold_towel", fold_top_only, seed)
    assert (trial.milestones, trial.final) == (HANDLED[:3], False)


@SEEDS
def test_folding_the_bottom_corner_counts_on_its_own(play, seed):
    trial = play("fold_towel", fold_bottom_only, seed)
    assert (trial.milestones, trial.final) == (("bottom_corner_moved",), False)


@SEEDS
def test_an_untidy_fold_is_not_finished(play, seed):
    trial = play("fold_towel", fold_untidily, seed)
    assert (trial.milestones, trial.final) == (HANDLED, False)


@SEEDS
def test_the_whole_script_folds(play, seed):
    trial = play("fold_towel", FoldTowel.scripts, seed)
    assert (trial.milestones, trial.final) == ((*HANDLED, "folded"), True)


def test_a_towel_unfolded_again_is_no_longer_folded(play):
    trial = play("fold_towel", fold_and_unfold)
    assert (trial.milestones, trial.final) == (HANDLED, False)
