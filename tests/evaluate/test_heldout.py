"""The held-out matrix: which cells it has, and that it is made of demonstrations nobody trained on."""

import json
import shutil
from dataclasses import replace

import pytest
from runs import CAMERAS, ROBOT, make_run
from toy_world import write_dataset

from holdfast import catalog
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.source import open_source
from holdfast.evaluate import heldout
from holdfast.evaluate.heldout import write_heldout
from holdfast.runs.embodiment import settle_embodiment
from holdfast.runs.run import read_run

TASKS = ("press_button", "push_box")


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heldout")
    for name in TASKS:
        write_dataset(folder / name, catalog.task(name), ROBOT, episodes=2, length=6, size=32, cameras=CAMERAS, seed=7)
    return folder


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


@pytest.mark.parametrize(("unseen", "cells"), [(False, ["1,1", "1,2", "2,2"]), (True, ["1,1", "2,1", "1,2", "2,2"])])
def test_it_scores_every_episode_of_every_task_after_every_stage(run, demonstrations, unseen, cells):
    steps = list(write_heldout(read_run(run), demonstrations, unseen, "cpu"))
    assert [step[:2] for step in steps] == [(n, len(cells)) for n in range(1, len(cells) + 1)]
    assert steps[0][2].startswith("press_button after stage 1: ")
    found = json.loads((run / "heldout.json").read_text())
    assert found["tasks"] == list(TASKS)
    assert list(found["cells"]) == cells
    assert all(len(scores) == 2 and 0 <= min(scores) <= max(scores) <= 100 for scores in found["cells"].values())
    assert [file.name for file in run.glob("heldout*")] == ["heldout.json"]


def test_which_arms_count_follows_from_the_robot_that_the_run_has_stored(run, demonstrations, monkeypatch):
    def counted(robot):
        """Dimensions that count for press_button, a task of one arm."""
        (run / "embodiment.json").unlink(missing_ok=True)
        settle_embodiment(run / "embodiment.json", robot)
        list(write_heldout(read_run(run), demonstrations, False, "cpu"))
        return masks.pop("press_button").sum()

    masks = {}
    monkeypatch.setattr(
        heldout, "explained", lambda checkpoint, task, data, active, *_: masks.update({task.name: active}) or (50.0,)
    )
    assert counted(ROBOT) == 7
    one = replace(
        ROBOT, dimensions=tuple(replace(d, arm=catalog.task("press_button").arms[0]) for d in ROBOT.dimensions)
    )
    assert counted(one) == 14
    assert counted(None) == 14, "without a robot every dimension counts"
    with pytest.raises(HoldfastError, match="has 14 action dimensions; the run was trained for 'piper_x_pair'"):
        counted(replace(ROBOT, dimensions=ROBOT.dimensions[:7]))


def test_demonstrations_that_were_trained_on_are_refused(run, demonstrations):
    seen = run / "stages" / "02-push_box" / "checkpoint" / "datasets.json"
    seen.write_text(json.dumps({"press_button": open_source(str(demonstrations / "press_button")).fingerprint}))
    with pytest.raises(HoldfastError, match=r"Stage 2 was trained on .*press_button: it is not held out"):
        list(write_heldout(read_run(run), demonstrations, False, "cpu"))
    assert not (run / "heldout.json").exists()


def test_missing_demonstrations_are_named_with_the_command_that_makes_them(tmp_path, capsys):
    run = make_run(tmp_path / "run", ("press_button",))
    flags = [f"--heldout={tmp_path / 'none'}", "--device=cpu"]
    assert main(["evaluate", str(run), *flags]) == 2
    assert "holdfast record --tasks press_button" in capsys.readouterr().err
