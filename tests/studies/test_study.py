"""A study's file: which runs it makes, what they are called, what it refuses; and a whole one, killed on the way."""

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


def start(file, output):
    """Carry out a study in a process of its own, with the fake arena at hand."""
    environment = {**os.environ, "PYTHONPATH": f"{ARENAS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "study", "run", str(file), f"--output={output}"],
        env=environment,
        start_new_session=True,
    )


def results(run):
    """Weights of every stage and all trials, without when they ran."""
    stages = sorted((run / "stages").iterdir())
    weights = [checked_folder.file_hash(s / "checkpoint" / "policy" / "model.safetensors") for s in stages]
    with Trials(run / "trials.sqlite") as file:
        return weights, sorted((t.stage, t.task, t.seed, t.score, t.weights) for t in file.all())


@pytest.mark.slow
def test_a_study_that_is_killed_again_and_again_ends_like_separate_runs(file, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ARENAS))
    edited(file, "seeds = [1, 2]", "seeds = [1]")
    edited(file, 'method = ["sequential", "er"]', 'method = "sequential"')
    edited(file, "[0.2, 0.5]", "[0.5]")
    study = tmp_path / "study"
    for progress in ("data/all/touch", "runs/er*/stages/02-*/progress/step-*"):
        process = start(file, study)
        while process.poll() is None and not list(study.glob(progress)):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert start(file, study).wait() == 0
    assert json.loads((study / "report" / "metrics.json").read_text())
    stages = [path for path in (study / "shared").iterdir() if not path.name.startswith(".")]
    assert len(stages) == 3, "one first stage for both runs, and a second stage each"

    flags = [f"--stream={tmp_path}/stream.toml", f"--data_root={study}/data/all", *TINY, "--device=cpu", "--seed=1"]
    flags += ["--steps=4", "--batch_size=4", "--norm.limit=100", "--replay.frequency=0.5"]
    for name, method in (("sequential-1", "sequential"), ("er-replay.frequency=0.5-1", "er")):
        alone = tmp_path / name
        assert main(["train", *flags, f"--output={alone}", f"--method={method}"]) == 0
        trials = ["--trials=2", "--cells=needed", "--device=cpu", "--processes=1", "--arena=fake_arena:FakeArena"]
        assert main(["evaluate", str(alone), *trials]) == 0
        assert results(study / "runs" / name) == results(alone)
