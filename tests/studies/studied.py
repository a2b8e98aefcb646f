"""A made-up study: its file, and its folder with runs as training and evaluation leave them, without weights."""

import json
import shutil
from dataclasses import replace
from functools import partial

import yaml
from report.synthetic import write_run

from holdfast.core.json_records import to_json
from holdfast.runs.trials import Trials
from holdfast.studies import load_study

TASKS = ("stack_bowls", "press_button")
STUDY = """
name = "mini"
question = "Does replay help?"
seeds = [1, 2]
[train]
stream = "{stream}"
steps = 400
[[grid]]
method = ["sequential", "er", "finetune", "joint"]
[evaluate]
trials = 5
"""


def write_study(folder, stream="single_arm"):
    """The study's file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mini.toml"
    file.write_text(STUDY.format(stream=stream))
    return file


def write_folder(file, folder, names=None):
    """A study's folder with all runs, or the named ones."""
    study = load_study(str(file))
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps(to_json(study)))
    for run in study.runs():
        if names is None or run.name in names:
            path = write_run(folder / "runs" / run.name, run.flags["method"], TASKS, trials=5)
            edit_yaml(path / "run.yaml", lambda content, seed=run.seed: content["config"].update(seed=seed))
            for stage in sorted((path / "stages").iterdir()):
                set_weights(stage, f"{run.name} {stage.name}")
            edit_trials(path, partial(_tried, run.name))
    return folder


def _tried(run, trial):
    score = float((37 * trial.seed + 11 * trial.stage) % 101)
    return replace(trial, weights=f"{run} {trial.stage}", score=score, when=1000.0)


def only(folder, part, names):
    """A copy of a study's folder with some of its runs."""
    shutil.copytree(folder, part)
    for run in (part / "runs").iterdir():
        if run.name not in names:
            shutil.rmtree(run)
    return part


def edit_yaml(file, edit):
    content = yaml.safe_load(file.read_text())
    edit(content)
    file.write_text(yaml.safe_dump(content, sort_keys=False))


def set_weights(stage, weights):
    (stage / "checkpoint" / "manifest.json").write_text(json.dumps({"policy/model.safetensors": weights}))


def edit_trials(run, edit, order=list):
    """Write the trials anew, each as `edit` returns it; None leaves it out."""
    file = run / "trials.sqlite"
    with Trials(file) as stored:
        trials = order(stored.all())
    for old in run.glob("trials.sqlite*"):
        old.unlink()
    with Trials(file) as stored:
        for trial in map(edit, trials):
            if trial:
                stored.add(trial)
