"""Trials in a simulator that fails: each failure is one trial that is not valid, with its reason; the others go on."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast import arenas
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Task, Trial, TrialProtocol
from holdfast.evaluate.cells import Cell
from holdfast.evaluate.engine import _unless_broken
from holdfast.evaluate.rollout import LocalLane, TrialOrder, play
from holdfast.runs.trials import Trials

WORKER = Path(__file__).parents[1] / "arenas" / "hostile_worker.py"
TASK = Task("touch", "Go to the mark.", ("arm",))
FAULTS = {1: "die", 3: "hang", 5: "endless_message", 6: "wrong_shape", 8: "nan", 9: "at_begin", 11: "chatter"}
INVALID = [1, 3, 5, 6, 8, 9]


class Pilot:
    """Always goes to the same place, two steps at a time. Loses its patience in the layout in which the arena hangs."""

    size, cameras, answer_steps = (8, 8), ["top"], 2

    def __init__(self, name):
        self.name = name

    def begin(self, questions):
        if any(FAULTS.get(question.seed) == "hang" for question in questions):
            set_patience(self.name, 0.5)
        return lambda: [np.full((2, 2), 0.6) for _ in questions]


def set_patience(name, seconds):
    object.__setattr__(arenas.load(name)._file, "timeout", seconds)


def arena(folder, faults):
    lines = "".join(f'{seed} = "{fault}"\n' for seed, fault in faults.items())
    text = f'name = "toy"\npython = {json.dumps(sys.executable)}\nworker = "{WORKER}"\ntimeout = 300\n'
    (folder / "toy.toml").write_text(f"{text}[options.faults]\n{lines}")
    return str(folder / "toy.toml")


def order(folder, seed, video=""):
    return TrialOrder(folder, folder, 1, TASK, seed, "", "w" * 64, "n", TrialProtocol(2), video)


def orders(folder, name):
    for seed in range(13):
        set_patience(name, 300)  # a new worker may start slowly
        yield order(folder, seed)


@pytest.fixture(autouse=True)
def _end_processes():
    yield
    arenas.load.cache_clear()


def test_every_failure_is_one_invalid_trial_and_no_other_changes(tmp_path):
    results = {}
    for name, faults in (("good", {}), ("bad", FAULTS)):
        folder = tmp_path / name
        folder.mkdir()
        file = arena(folder, faults)
        lanes = [LocalLane(file) for _ in range(1 if faults else 2)]
        done = play(lambda checkpoint, file=file: Pilot(file), lanes, orders(folder, file))
        results[name] = {trial.seed: trial for _, trial in done}
    good, bad = ({s: replace(t, run="") for s, t in found.items()} for found in results.values())
    assert [seed for seed in sorted(bad) if not bad[seed].valid] == INVALID
    assert {s: t for s, t in bad.items() if s not in INVALID} == {s: t for s, t in good.items() if s not in INVALID}
    for seed in INVALID:
        trial = bad[seed]
        assert (trial.source, trial.score, trial.weights) == ("toy", None, "w" * 64)
        assert trial.notes.startswith("The worker of the arena 'toy' failed in ")
        assert trial.seconds == (0 if seed == 9 else 0.1)
    with Trials(tmp_path / "trials.sqlite") as file:
        for trial in bad.values():
            file.add(trial)
        assert [trial.seed for trial in file.counted()] == [s for s in range(13) if s not in INVALID]


def test_a_failed_trial_leaves_no_video(tmp_path):
    file = arena(tmp_path, {0: "die"})
    orders = [order(tmp_path, seed, f"videos/{seed}.mp4") for seed in (0, 1)]
    first, second = (trial for _, trial in play(lambda checkpoint: Pilot(file), [LocalLane(file)], iter(orders)))
    assert (first.valid, first.video, second.valid, second.video) == (False, "", True, "videos/1.mp4")
    assert [path.name for path in (tmp_path / "videos").iterdir()] == ["1.mp4"]


TRIAL = Trial("touch", 1, (), source="toy", seed=0, score=0.0)


def done(*kinds):
    """Trials that succeed (g), fail on their way (l), or before their first step (e)."""
    kind = {"g": {}, "l": {"valid": False, "seconds": 1.0}, "e": {"valid": False}}
    return [(None, replace(TRIAL, seed=seed, notes="no display", **kind[name])) for seed, name in enumerate(kinds)]


@pytest.mark.parametrize("kinds", ["geeg", "eegee", "llll", "ege", "ee"])
def test_single_failures_pass_in_order(kinds):
    assert list(_unless_broken(iter(done(*kinds)))) == done(*kinds)


def test_an_arena_that_never_starts_is_an_error_and_leaves_no_trials():
    written = _unless_broken(iter(done(*"gleeeg")))
    assert [next(written), next(written)] == done("g", "l")
    with pytest.raises(HoldfastError, match=r"3 trials in a row failed before their first step. no display"):
        next(written)


def test_a_cell_counts_valid_trials_only():
    cell = Cell(None, "touch", range(4))
    trials = {seed: replace(TRIAL, seed=seed, score=50.0) for seed in range(4)}
    trials[1] = replace(TRIAL, seed=1, score=None, valid=False)
    written = [due.seed for seed in (3, 1, 0, 2) for due in cell.add(trials[seed])]
    assert (written, cell.scores, cell.settled, cell.remaining) == ([0, 1, 2, 3], [50.0] * 3, True, 0)
