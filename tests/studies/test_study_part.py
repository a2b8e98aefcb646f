"""A part of a study: which runs it takes, what is recorded for them, and that parts make up the whole."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from point_study import edited, with_arena, write_study

from holdfast.catalog import load_stream
from holdfast.cli import main
from holdfast.commands import study as command
from holdfast.evaluate import engine
from holdfast.evaluate.workers import run_share
from holdfast.studies import load_study
from holdfast.studies.docs_page import write_page
from holdfast.studies.evidence_file import SUFFIX
from holdfast.studies.jobs import StudyFolder, make_jobs
from holdfast.studies.on_ray import FinishedJob
from holdfast.studies.part import part_of
from holdfast.studies.study import StudyRecord

CLAIM = """
[[claim]]
text = "Replay forgets less than sequential fine-tuning."
metric = "bwt"
better = { method = "er" }
worse = { method = "sequential" }
"""


@pytest.fixture
def file(tmp_path):
    return write_study(tmp_path)


def names(file, *settings):
    return [run.name for run in part_of(load_study(str(file)), settings)]


def test_a_part_is_the_runs_that_have_all_settings(file):
    assert names(file) == [run.name for run in load_study(str(file)).runs()]
    assert names(file, "seed=2", "method=sequential") == ["sequential-2"]
    assert names(file, "seed=1,2", "replay.frequency=0.5") == [f"er-replay.frequency=0.5-{seed}" for seed in (1, 2)]
    # The stream's file may lie elsewhere on another machine.
    assert names(file, "stream=points.toml") == names(file)
    edited(file, 'method = "er"\nreplay.frequency = [0.2, 0.5]', "tasks = [['touch'], ['mirror', 'touch']]")
    assert names(file, "seed=1", "tasks=[mirror, touch]") == ["tasks=_mirror__touch_-1"]
    both = [f"tasks={order}-{seed}" for seed in (1, 2) for order in ("_touch_", "_mirror__touch_")]
    assert names(file, "tasks=[touch],[mirror, touch]") == both


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["sed=1"], "Unknown flag 'sed' of --only. Did you mean 'seed'? Valid: seed, stream,"),
        (["seed=1,3"], "Unknown value '3' of --only seed. Valid: 1, 2."),
        (["method=joint"], "Unknown value 'joint' of --only method. Valid: sequential, er."),
        (["seed"], "got 'seed'"),
        (["seed=1", "seed=2"], "names seed twice"),
        (["method=sequential", "replay.frequency=0.5"], "No run of points has all of"),
    ],
)
@pytest.mark.parametrize("action", ["plan", "run"])
def test_a_part_that_is_none_is_refused_before_any_work(file, tmp_path, capsys, action, settings, said):
    assert main(["study", action, str(file), f"--output={tmp_path}/out", "--only", *settings]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("action", "flag", "said"),
    [
        *((other, "--only=seed=1", "--only goes with plan and run") for other in ("status", "report", "pack", "merge")),
        ("run", "--source=twin", "--source goes with report"),
        ("plan", "--trainings=2", "--trainings goes with run"),
        ("status", "--address=auto", "--address goes with run"),
    ],
)
def test_a_flag_that_the_action_would_not_use_is_refused(file, capsys, action, flag, said):
    assert main(["study", action, str(file), flag]) == 2
    assert said in capsys.readouterr().err


def test_the_plan_of_a_part_counts_its_runs_as_if_there_were_no_others(file, capsys):
    assert main(["study", "plan", str(file), "--only", "seed=2", "method=er"]) == 0
    out = capsys.readouterr().out
    assert "sequential" not in out
    # A first stage that all three have in common, and a second each; f_r 0.2 is er's default.
    assert "3 runs, 3 different stages" in out
    assert "18 trials" in out


def test_only_what_the_runs_need_is_recorded():
    study = replace(load_study("paper-twin"), record=StudyRecord(episodes=100))
    part = part_of(study, ["stream=single_arm", "seed=2", "method=er,sequential"])
    jobs = {job.name: job for job in make_jobs(study, StudyFolder(Path("here")), part)}
    words = jobs["record-seed-2"].command
    tasks = words[words.index("--tasks") + 1 : words.index("--episodes")]
    assert sorted(tasks) == sorted(load_stream("single_arm", "data").names)
    assert len(jobs) == 1 + 2 * len(part) + 1


class HereCluster:
    """Runs every job in this process."""

    has_gpu = False

    def __init__(self, address, trainings): ...

    def carry_out(self, jobs, folder):
        for job in jobs:
            more = ["--processes", "1"] if job.kind in ("record", "evaluate") else []
            yield FinishedJob(job, "" if main([*job.command, *more]) == 0 else "failed", 1.0)


@pytest.fixture
def here(monkeypatch):
    """Studies without Ray, and trials without processes of their own."""
    monkeypatch.syspath_prepend(with_arena()["PYTHONPATH"].split(os.pathsep)[0])
    monkeypatch.setattr(command, "Cluster", HereCluster)

    def local(setup, checkpoint, processes, watch):
        return lambda orders: (trial for order in orders for trial in run_share(setup, [order]))

    monkeypatch.setattr(engine, "local", local)


def page_of(packed, folder):
    """A page with every kind of block about a file of evidence."""
    (folder / "evidence").mkdir()
    packed.rename(folder / "evidence" / f"points{SUFFIX}")
    kinds = ("claims", "groups", "tasks", "figure", "cost")
    blocks = [f"<!-- begin {kind} points{' matrices' * (kind == 'figure')} -->\n<!-- end -->\n" for kind in kinds]
    return write_page("".join(blocks), folder).text


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_parts_from_two_folders_give_the_report_of_the_whole(file, here, tmp_path, capsys):
    edited(file, "seed = 7\n", "")  # demonstrations of its own for each seed
    edited(file, 'method = "er"\nreplay.frequency = [0.2, 0.5]', 'method = "sequential"')
    edited(file, "trials = 2\n", "trials = 2\n" + CLAIM)

    def run(folder, *only):
        assert main(["study", "run", str(file), f"--output={tmp_path / folder}", *only]) == 0

    def status(folder):
        capsys.readouterr()
        assert main(["study", "status", str(tmp_path / folder)]) == 0
        return capsys.readouterr().out

    run("whole")
    run("one", "--only", "seed=1")
    assert [path.name for path in (tmp_path / "one" / "data").iterdir()] == ["seed-1"]
    assert "2 of 4 runs are done" in status("one")
    run("other", "--only", "seed=2", "method=er")
    run("other", "--only", "seed=2", "method=sequential")
    # The second part has taken the first stage over from the first.
    taken = (tmp_path / "other" / "runs" / "sequential-2" / "audit.jsonl").read_text()
    assert [json.loads(line)["stage"] for line in taken.splitlines() if "taken_over" in line] == [1]
    parts = [f"{tmp_path}/{name}{SUFFIX}" for name in ("one", "other")]
    for name, packed in zip(("one", "other"), parts, strict=True):
        assert main(["study", "pack", str(tmp_path / name), f"--output={packed}"]) == 0
    whole = f"{tmp_path}/merged{SUFFIX}"
    assert main(["study", "merge", *parts, f"--output={whole}"]) == 0
    assert "4 of 4 runs" in capsys.readouterr().out
    assert main(["study", "report", whole, f"--output={tmp_path}/merged"]) == 0
    metrics = [(tmp_path / name / "report" / "metrics.json").read_bytes() for name in ("merged", "whole")]
    assert metrics[0] == metrics[1]
    page = page_of(Path(whole), tmp_path)
    assert "of 4 of 4 runs with seeds 1, 2; 24 trials" in page
    assert "0 minutes of training in 4 of 4 runs, 0 minutes of trials in 4 of 4 runs" in page
    run("one")
    assert "4 of 4 runs are done" in status("one")
    assert not (tmp_path / "one" / "shared").exists()
    assert (tmp_path / "one" / "report" / "metrics.json").read_bytes() == metrics[1]
