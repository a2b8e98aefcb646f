"""A study's file: which runs it makes, what they are called, what it refuses; and a whole one, killed on the way."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toys import TINY

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.runs.trials import Trials
from holdfast.studies import load_study, shipped

ARENAS = Path(__file__).parents[1] / "arenas"  # where the fake arena is
STREAM = """
name = "points"
[[task]]
name = "touch"
instruction = "Go to the mark."
arms = ["point"]
[[task]]
name = "mirror"
instruction = "Go to the other side."
arms = ["point"]
[[task.milestone]]
name = "near"
text = "Half of the way is done."
[[task.milestone]]
name = "there"
text = "The point is there."
needs = ["near"]
"""
STUDY = """
name = "points"
arena = "fake_arena:FakeArena"
seeds = [1, 2]
[record]
episodes = 4
size = 32
seed = 7
[train]
stream = "{folder}/stream.toml"
device = "cpu"
steps = 4
batch_size = 4
norm.limit = 100
checkpoint.every = 2
{tiny}
[[grid]]
method = ["sequential", "er"]
[[grid]]
method = "er"
replay.frequency = [0.2, 0.5]
[evaluate]
trials = 2
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "stream.toml").write_text(STREAM)
    tiny = "\n".join(flag.removeprefix("--").replace("=", " = ") for flag in TINY)
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format(folder=tmp_path, tiny=tiny))
    return file


def edited(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


def test_a_run_for_each_combination_and_seed_named_by_what_differs(file):
    names = [run.name for run in load_study(str(file)).runs()]
    assert names == [
        f"{name}-{seed}"
        for seed in (1, 2)
        for name in ("sequential", "er", "er-replay.frequency=0.2", "er-replay.frequency=0.5")
    ]


def test_a_combination_that_two_grids_name_is_one_run(file):
    edited(file, 'method = "er"\nreplay.frequency = [0.2, 0.5]', 'method = ["er", "joint"]')
    assert [run.name for run in load_study(str(file)).runs()][:3] == ["sequential-1", "er-1", "joint-1"]


def test_the_plan_counts_shared_stages_once_and_only_needed_trials(file, capsys):
    assert main(["study", "plan", str(file)]) == 0
    out = capsys.readouterr().out
    # Per seed a first stage that all four have in common, and a second stage each; f_r 0.2 is er's default.
    assert "8 runs, 8 different stages" in out
    assert "48 trials" in out  # three cells of two trials


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("batch_size = 4", "batchsize = 4", "batchsize"),
        ('["sequential", "er"]', '["sequentiel"]', "Unknown --method 'sequentiel'"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "'seeds' must be different"),
        ("seeds = [1, 2]", 'seeds = ["1"]', "'seeds'"),
        ("trials = 2", "trials = 0", "'trials' must be at least 1"),
        ("trials = 2", 'cells = "some"', "Unknown 'cells' 'some'"),
        ("episodes = 4", "episode = 4", "Unknown key 'episode'"),
        ("steps = 4", "seed = 4", "set by the study itself"),
        ("[evaluate]", "[evaluation]", "Unknown key 'evaluation'"),
        ("stream.toml", "steam.toml", "steam.toml"),
        ("[0.2, 0.5]", "[0.2, 1.5]", "replay.frequency"),
    ],
)
def test_a_mistake_is_said_in_one_line_before_any_work(file, tmp_path, capsys, old, new, said):
    edited(file, old, new)
    assert main(["study", "run", str(file), f"--output={tmp_path}/out"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_every_shipped_study_can_be_planned(capsys):
    for name in shipped():
        assert main(["study", "plan", name]) == 0
        assert "different stages" in capsys.readouterr().out


def test_an_unknown_study_names_the_shipped_ones():
    with pytest.raises(HoldfastError, match="replay-frequency"):
        load_study("replay-frequenzy")


def run_study(file, output):
    environment = {**os.environ, "PYTHONPATH": f"{ARENAS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "study", "run", str(file), f"--output={output}"],
        env=environment,
        start_new_session=True,
    )


def results(output):
    """Weights of every stage and all trials, without when they ran."""
    found = {}
    for run in sorted((output / "runs").iterdir()):
        for stage in sorted((run / "stages").iterdir()):
            weights = stage / "checkpoint" / "policy" / "model.safetensors"
            found[run.name, stage.name] = checked_folder.file_hash(weights)
        with Trials(run / "trials.sqlite") as file:
            found[run.name] = [(t.stage, t.task, t.seed, t.score, t.weights) for t in file.all()]
    return found


@pytest.mark.slow
def test_a_study_that_is_killed_again_and_again_ends_like_one_that_is_not(file, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_study(file, whole).wait() == 0
    for progress in ("data/all/touch", "runs/*/stages/*/progress/step-*", "runs/*/stages/02-*/checkpoint"):
        process = run_study(file, killed)
        while process.poll() is None and not list(killed.glob(progress)):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert run_study(file, killed).wait() == 0
    assert results(killed) == results(whole)
    # One first stage per seed for all runs; er with its default frequency of 0.2 is there twice under two names.
    for output in (whole, killed):
        stages = [path for path in (output / "shared").iterdir() if not path.name.startswith(".")]
        assert len(stages) == 2 * (1 + 3)
        assert json.loads((output / "report" / "metrics.json").read_text())


@pytest.mark.slow
def test_shared_and_unshared_runs_have_the_same_weights(file, tmp_path):
    output = tmp_path / "study"
    assert run_study(file, output).wait() == 0
    tiny = [*TINY, "--device=cpu", "--steps=4", "--batch_size=4", "--norm.limit=100"]
    flags = {"sequential": ["--method=sequential"], "er-replay.frequency=0.5": ["--replay.frequency=0.5"]}
    for (name, own), seed in itertools.product(flags.items(), (1, 2)):
        alone = tmp_path / f"{name}-{seed}"
        where = [f"--stream={tmp_path}/stream.toml", f"--data_root={output}/data/all", f"--output={alone}"]
        assert main(["train", *where, *tiny, *own, f"--seed={seed}"]) == 0
        for stage in sorted((alone / "stages").iterdir()):
            weights = Path("stages") / stage.name / "checkpoint" / "policy" / "model.safetensors"
            ours = output / "runs" / alone.name
            assert checked_folder.file_hash(ours / weights) == checked_folder.file_hash(alone / weights)
