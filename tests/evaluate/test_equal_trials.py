"""Trials that two runs have in common are run once and written to both."""

import json
import shutil
from dataclasses import replace

import pytest

from holdfast import catalog
from holdfast.core.records import Trial, TrialProtocol
from holdfast.evaluate.equal_trials import each_once
from holdfast.evaluate.rollout import TrialOrder

SEEDS = (0, 1, 2)


@pytest.fixture
def runs(finished, tmp_path):
    return [shutil.copytree(finished, tmp_path / name) for name in ("one", "other")]


def orders(run, **changes):
    checkpoint = run / "stages" / "01-press_button" / "checkpoint"
    task, protocol = catalog.task("press_button"), TrialProtocol(8)
    first = TrialOrder(run, checkpoint, 1, task, 0, "standard", "weights", "space", protocol, "film.mp4")
    return [replace(first, **{"seed": seed, **changes}) for seed in SEEDS]


def carried_out(some, at_once):
    """What ran and what came out; `at_once` orders are drawn before the first one ends."""
    ran = []

    def workers(different):
        waiting = []
        for order in different:
            waiting.append(order)
            if len(waiting) == at_once:
                yield end(waiting.pop(0))
        yield from map(end, waiting)

    def end(order):
        ran.append(order)
        (order.run / order.video).write_bytes(f"film of {order.seed}".encode())
        return order, Trial(order.task.name, order.stage, (), seed=order.seed, run=order.run.name, video=order.video)

    copies = []
    found = list(each_once(workers, iter(some), lambda order, trial: copies.append((order, trial))))
    return ran, found + copies


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_the_trial_of_one_run_is_that_of_the_other(runs, at_once):
    one, other = runs
    ran, found = carried_out([*orders(one), *orders(other, video="copy.mp4", stage=2)], at_once)
    assert [order.run for order in ran] == [one] * len(SEEDS)
    by_run = {run: [(order, trial) for order, trial in found if order.run == run] for run in runs}
    for run, name, video, stage in ((one, "one", "film.mp4", 1), (other, "other", "copy.mp4", 2)):
        said = [(trial.seed, trial.run, trial.video, trial.stage) for _, trial in by_run[run]]
        assert said == [(seed, name, video, stage) for seed in SEEDS]
    assert (other / "copy.mp4").read_text() == "film of 2"


@pytest.mark.parametrize(
    "difference",
    [
        {"weights": "others"},
        {"normalization": "another"},
        {"level": "easy"},
        {"protocol": TrialProtocol(4)},
        {"task": replace(catalog.task("press_button"), instruction="Press it.")},
    ],
)
def test_trials_that_differ_in_anything_are_all_run(runs, difference):
    one, other = runs
    ran, found = carried_out([*orders(one), *orders(other, **difference)], 2)
    assert len(ran) == len(found) == 2 * len(SEEDS)


def test_so_are_those_of_the_same_weights_with_other_settings_of_the_policy(runs):
    one, other = runs
    file = other / "stages" / "01-press_button" / "checkpoint" / "policy" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "denoise_steps": 7}))
    ran, _ = carried_out([*orders(one), *orders(other)], 2)
    assert len(ran) == 2 * len(SEEDS)
