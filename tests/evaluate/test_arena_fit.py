"""What a policy was trained for is compared with the arena before any trial."""

import shutil
from dataclasses import replace

import pytest

from holdfast.arenas.twin import Twin
from holdfast.core.errors import HoldfastError
from holdfast.embodiments import EMBODIMENTS
from holdfast.evaluate.cells import Cell
from holdfast.evaluate.engine import Choice, _orders
from holdfast.evaluate.equal_trials import _identity
from holdfast.evaluate.fit import check_fits
from holdfast.runs.embodiment import settle_embodiment
from holdfast.runs.run import read_run, run_of

PIPER = EMBODIMENTS["piper_x_pair"]
TURNED = PIPER.names[7:] + PIPER.names[:7]
COUNTED = tuple(f"dimension_{i}" for i in range(14))


def arena(**changes):
    return type("Changed", (Twin,), changes)()


def check(folder, **changes):
    run = read_run(folder)
    check_fits(run, arena(**changes), run.stages[-1], "push_box")


def with_robot(finished, folder, robot):
    shutil.copytree(finished, folder / "run")
    settle_embodiment(folder / "run" / "embodiment.json", robot)
    return folder / "run"


@pytest.mark.parametrize("word", ["state", "action"])
def test_the_same_names_in_another_order_are_refused(finished, word):
    check(finished)
    said = f"trained on the {word} left_joint_1.pos, .* the arena 'twin' has it in another order: right_joint_1"
    with pytest.raises(HoldfastError, match=said):
        check(finished, **{word: TURNED})
    with pytest.raises(HoldfastError, match="another order"):  # two have changed places, the others have other names
        check(finished, **{word: (*COUNTED[:12], *PIPER.names[:-3:-1])})


@pytest.mark.parametrize("names", [COUNTED, (*PIPER.names[:13], "jaw")])
def test_names_that_are_counted_or_say_it_otherwise_are_no_other_order(finished, names):
    assert check(finished, state=names, action=names) is None


def test_a_rate_that_only_the_datasets_call_otherwise_can_be_said(finished):
    with pytest.raises(HoldfastError, match=r"trained at 30 steps a second, .* takes 10\. .* write rate = 30 into"):
        check(finished, rate=10)


def test_an_action_of_another_kind_is_refused(finished, tmp_path):
    first = PIPER.names[0]
    check(finished, kinds={first: "delta"})  # of a run without a robot nothing is known
    run = with_robot(finished, tmp_path, PIPER)
    check(run, kinds={first: "target"})
    with pytest.raises(HoldfastError, match=f"'{first}' as a joint, in the arena 'twin' '{first}' is a delta"):
        check(run, kinds={first: "delta"})


@pytest.mark.parametrize(
    ("robot", "said"),
    [
        (replace(PIPER, dimensions=PIPER.dimensions[1:]), "not one of 14 dimensions"),
        (replace(PIPER, dimensions=tuple(replace(d, arm="middle") for d in PIPER.dimensions)), "Unknown arm"),
    ],
)
def test_a_robot_that_cannot_hold_the_arms_is_refused(finished, tmp_path, robot, said):
    with pytest.raises(HoldfastError, match=said):
        check(with_robot(finished, tmp_path, robot))


def test_trials_are_ordered_with_the_robot_of_the_run(finished, tmp_path):
    orders = []
    for folder in (finished, with_robot(finished, tmp_path, PIPER)):
        run = read_run(folder)
        orders += _orders(run, Choice(trials=1), [Cell(run.stages[0], "press_button", [0], None)])
    assert [order.robot for order in orders] == [None, PIPER]
    assert len({_identity(order) for order in orders}) == 2, "a trial with another robot is another trial"


def test_a_checkpoint_leads_to_its_run_and_its_robot(finished, tmp_path):
    run = run_of(with_robot(finished, tmp_path, PIPER) / "stages/02-push_box/checkpoint")
    assert (run.path, run.robot) == (tmp_path / "run", PIPER)
    assert run_of(finished / "stages/02-push_box/checkpoint").robot is None
    assert run_of(finished / "stages/02-push_box/checkpoint/policy") is None
    assert run_of(tmp_path / "checkpoint") is None
