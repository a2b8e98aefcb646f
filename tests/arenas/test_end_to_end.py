"""An arena that nobody here knows: recorded, learned, evaluated, watched, reported, by its path alone."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
import yaml
from fake_arena import STREAM, FakeArena
from toys import TINY

from holdfast.cli import main
from holdfast.core.records import Milestone, Trial, TrialProtocol
from holdfast.embodiments.embodiment import Dimension, Embodiment
from holdfast.runs.embodiment import settle_embodiment
from holdfast.runs.trials import Trials

FAKE = "--arena=fake_arena:FakeArena"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Demonstrations of both tasks, and a run that has learned them one after the other."""
    folder = tmp_path_factory.mktemp("points")
    record = ["record", FAKE, "--tasks", "touch", "mirror", "--episodes", "4", "--size", "32", "--processes", "1"]
    assert main([*record, "--output", str(folder / "data")]) == 0
    (folder / "stream.toml").write_text(STREAM)
    train = ["train", f"--stream={folder / 'stream.toml'}", f"--output={folder / 'run'}", "--device=cpu", *TINY]
    assert main([*train, "--steps=4", "--batch_size=4", "--norm.limit=100"]) == 0
    return folder


@pytest.fixture
def run(folder, tmp_path):
    return shutil.copytree(folder / "run", tmp_path / "run")


def evaluate(run, *flags):
    return main(["evaluate", str(run), "--device=cpu", "--processes=1", "--trials=2", *flags])


def trials(run) -> list[Trial]:
    with Trials(run / "trials.sqlite") as file:
        return file.all()


@pytest.mark.slow
def test_from_demonstrations_to_the_report(run, capsys):
    assert evaluate(run, FAKE, "--videos=1") == 0
    found = trials(run)
    cells = [(trial.stage, trial.task, trial.seed) for trial in found]
    assert cells == [(s, t, seed) for s, t in ((1, "touch"), (2, "touch"), (2, "mirror")) for seed in (0, 1)]
    assert {(trial.source, trial.level) for trial in found} == {("fake", "")}
    assert all(trial.score in (0, 100) for trial in found if trial.task == "touch")
    assert all(trial.score in (0, 50, 100) for trial in found)
    assert all(trial.seconds <= 2 for trial in found)
    assert "mirror" in capsys.readouterr().out
    assert len(list((run / "videos").rglob("*.mp4"))) == 3
    assert main(["report", str(run)]) == 0
    numbers = json.loads((run / "report" / "metrics.json").read_text())
    assert [cell["task"] for cell in numbers["runs"][0]["milestones"]] == ["mirror"]
    assert (run / "report" / "index.html").stat().st_size > 1000


@pytest.mark.slow
def test_a_trained_policy_and_a_recording_can_be_watched(folder, run, tmp_path, capsys):
    checkpoint = run / "stages" / "02-mirror" / "checkpoint"
    out = str(tmp_path / "x.mp4")
    assert main(["watch", FAKE, "--task=mirror", f"--policy={checkpoint}", "--out", out]) == 0
    assert "of 100" in capsys.readouterr().out
    assert main(["watch", FAKE, "--task=touch", "--out", out]) == 0
    assert "score 100 of 100" in capsys.readouterr().out
    recording = ["watch", "--dataset", str(folder / "data" / "touch"), "--out", out]
    assert main([*recording, FAKE]) == 0
    assert "score 100 of 100" in capsys.readouterr().out
    assert main(recording) == 0, "a dataset cannot make us load an arena"
    assert "score" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_policy_is_watched_as_its_run_tries_it(run, tmp_path, monkeypatch):
    """With the run's instruction, and its robot for idle arms: an arena knows neither."""
    file, robot = run / "run.yaml", run / "embodiment.json"
    file.write_text(file.read_text().replace("Go to the other side.", "Cross the table."))
    robot.unlink()
    point = Embodiment("point", tuple(Dimension(name, "point", "joint", -1, 1, 0.1) for name in ("x", "y")))
    settle_embodiment(robot, point)
    watched = []

    def act(episode, pilot, seed, robot):
        watched.append((episode.task.instruction, robot))
        return episode.arena.policy("expert", episode.environment, None)

    monkeypatch.setattr("holdfast.arenas.learned.LearnedPolicy", act)
    checkpoint = run / "stages" / "02-mirror" / "checkpoint"
    for policy in (checkpoint, checkpoint / "policy"):
        assert main(["watch", FAKE, "--task=mirror", f"--policy={policy}", "--out", str(tmp_path / "x.mp4")]) == 0
    assert watched == [("Cross the table.", point), ("Go to the other side.", None)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "'touch' is not a task of the arena 'twin'"),
        (["--arena=nothing"], "Valid: twin"),
        ([FAKE, "--level=wide"], "Unknown level"),
        (["--arena=test_end_to_end:Other"], "judges half, there"),
        (["--arena=test_end_to_end:Wide"], "2 dimensions of action, the arena 'wide' 3"),
        (["--arena=test_end_to_end:Blind"], "camera"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_runs(run, capsys, flags, said):
    assert evaluate(run, *flags) == 2
    assert said in capsys.readouterr().err
    assert trials(run) == []


@pytest.mark.slow
def test_trials_of_two_arenas_are_not_averaged(run, capsys):
    with Trials(run / "trials.sqlite") as file:
        policy = json.loads((run / "stages/01-touch/checkpoint/manifest.json").read_text())["policy/model.safetensors"]
        file.add(
            Trial("touch", 1, (), source="elsewhere", seed=0, weights=policy, score=100.0, protocol=TrialProtocol(4))
        )
    assert evaluate(run, FAKE) == 0
    assert "Not counted here: 1 trial of elsewhere." in " ".join(capsys.readouterr().out.split())
    with Trials(run / "trials.sqlite") as file:
        assert Counter(trial.source for trial in file.all("touch", 1)) == {"elsewhere": 1, "fake": 2}


@pytest.mark.slow
def test_the_runs_rubric_scores_and_not_the_arenas(run):
    """A run whose task has no milestones counts plain success, whatever the arena could tell."""
    file = run / "run.yaml"
    content = yaml.safe_load(file.read_text())
    content["tasks"][1]["milestones"] = []
    file.write_text(yaml.safe_dump(content))
    assert evaluate(run, FAKE, "--stages", "2", "--tasks", "mirror") == 0
    assert [trial.score in (0, 100) for trial in trials(run)] == [True, True]


class Other(FakeArena):
    """Its rubric has other words."""

    name = "other"

    tasks = {  # noqa: RUF012
        **FakeArena.tasks,
        "mirror": replace(FakeArena.tasks["mirror"], milestones=(Milestone("half", "."), Milestone("there", "."))),
    }


class Wide(FakeArena):
    name, action = "wide", ("x", "y", "z")


class Blind(FakeArena):
    name, cameras = "blind", ("other",)
