"""Jobs of a study on one machine: one attempt at a time, what is said of them, how long they will take, parcels."""

import fcntl
import json
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import studied
from point_study import ARENAS, edited, write_study

from holdfast.cli import main
from holdfast.commands import study as command
from holdfast.commands.flags import parse
from holdfast.core.errors import HoldfastError
from holdfast.core.processes import killed_with_parent
from holdfast.studies import estimate, load_study, on_ray
from holdfast.studies.estimate import WorkLeft
from holdfast.studies.history import EndedJob, read_ended, write_ended
from holdfast.studies.jobs import StudyFolder, StudyJob, make_jobs
from holdfast.studies.on_node import is_running, run_command
from holdfast.studies.on_ray import Cluster, FinishedJob
from holdfast.studies.parcels import moved, outside, pack, unpack
from holdfast.studies.plan import make_plan, status
from holdfast.train.config import TrainConfig

SLEEPS = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600); print('late')"]


@pytest.fixture
def file(tmp_path):
    return write_study(tmp_path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "study" / "logs").mkdir(parents=True)
    return StudyFolder(tmp_path / "study")


def planned(file, folder):
    study = load_study(str(file))
    return study, make_plan(study, folder, lambda flags: parse(TrainConfig, "train", list(flags), ""))


def test_a_second_attempt_waits_until_the_first_is_gone(folder, tmp_path):
    job = StudyJob("version", "report", ("--version",))
    log = folder.log(job)
    with log.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        first = subprocess.Popen(SLEEPS, stdout=held)  # its worker is gone, itself is not
    while "ready" not in log.read_text():
        time.sleep(0.01)
    assert is_running(log)
    second = threading.Thread(target=run_command, args=(job, folder, str(tmp_path), 1))
    second.start()
    second.join(0.5)
    assert "ready" in log.read_text(), "the second attempt has begun beside the first"
    first.kill()
    second.join()
    assert "holdfast" in log.read_text()
    assert "ready" not in log.read_text()
    assert not is_running(log)


def test_a_command_ends_with_its_parent_even_if_the_parent_ended_first():
    text = (
        "import os, subprocess, sys, time; from functools import partial\n"
        "from holdfast.core.processes import killed_with_parent\n"
        f"child = subprocess.Popen({SLEEPS!r}, preexec_fn=partial(killed_with_parent, os.getpid()))\n"
        "time.sleep(1000)"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"ready\n"
    parent.kill()
    assert parent.stdout.read() == b""  # ends when the child does, which holds the other end

    orphan = subprocess.Popen(SLEEPS, stdout=subprocess.PIPE, preexec_fn=partial(killed_with_parent, 1))
    assert orphan.communicate()[0] == b""


def test_status_tells_running_and_failed_jobs_with_their_last_lines(file, folder, capsys):
    study, _ = planned(file, folder)
    jobs = {job.name: job for job in make_jobs(study, folder)}
    write_ended(folder, EndedJob("train-er-1", "train", "it broke", 3.0, 8))
    write_ended(folder, EndedJob("train-er-2", "train", "it broke", 3.0, 8))
    write_ended(folder, EndedJob("train-er-2", "train", "", 3.0, 8))
    with folder.log(jobs["train-sequential-1"]).open("w") as held:
        held.write("step 1\nstep 2\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(["study", "status", str(file), f"--output={folder.root}"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[said.index("jobs: 0 done, 1 running, 1 failed, 16 waiting") + 1 :] == [
        "train-sequential-1 running: step 2",
        "train-er-1 failed: it broke",
    ]


def test_a_copy_of_a_stage_is_not_counted(tmp_path):
    file = studied.write_study(tmp_path)
    folder = StudyFolder(studied.write_folder(file, tmp_path / "study", ("er-1",)))
    stages = folder.runs / "er-1" / "stages"
    shutil.copytree(stages / "01-stack_bowls", stages / "03-stack_bowls")
    found = {one.run.run.name: one.stages for one in status(folder, planned(file, folder)[1])}
    assert (found["er-1"], found["er-2"]) == (2, 0)


def test_a_damaged_history_is_read_as_far_as_it_goes(folder):
    ended = EndedJob("report", "report", "", 1.5, 0)
    write_ended(folder, ended)
    with folder.history.open("a") as file:
        file.write('{"job": 3}\n[1]\nnonsense\n{"job": "half')
    assert read_ended(folder.history) == [ended]


def test_time_left_follows_from_the_jobs_done(file, folder):
    edited(file, "seeds = [1, 2]", "seeds = [1]")
    edited(file, 'method = ["sequential", "er"]', 'method = "sequential"')
    edited(file, "[0.2, 0.5]", "0.5")
    study, plan = planned(file, folder)
    jobs, now = make_jobs(study, folder), [0.0]
    left = WorkLeft(study, plan, jobs, folder, clock=lambda: now[0])
    assert left.text() == f"0 of {len(jobs)} jobs done, 0 s"
    assert left.share({"record-all": 0.5}) == pytest.approx(0.5 / len(jobs)), "job by job, before any time is known"
    for name, time_now, seconds in (
        ("record-all", 60, 60),
        ("train-sequential-1", 180, 120),
        ("evaluate-sequential-1", 240, 60),
    ):
        now[0] = time_now
        left.end(FinishedJob(next(job for job in jobs if job.name == name), "", seconds))
    # The other run: one stage of 8 steps is new where the first run took 8, and as many trials.
    assert left.text() == f"3 of {len(jobs)} jobs done, 240 s, about 3 min left"
    trained = next(job.name for job in jobs if job.kind == "train" and job.name != "train-sequential-1")
    assert left.share({}) == pytest.approx(240 / 420)
    assert left.share({trained: 0.5}) == pytest.approx(300 / 420)
    assert [(ended.job, ended.amount) for ended in read_ended(folder.history)] == [
        ("record-all", 8),
        ("train-sequential-1", 32),
        ("evaluate-sequential-1", 6),
    ]


def test_the_plan_says_hours_and_disk_or_that_they_are_not_known(file, folder, capsys, monkeypatch):
    assert main(["study", "plan", "heterogeneous"]) == 0
    out = capsys.readouterr().out
    assert "hours, job after job, on one H200" in out
    assert "of demonstrations" in out
    assert main(["study", "plan", str(file), f"--output={folder.root}"]) == 0
    assert "hours: not known" in (out := capsys.readouterr().out)
    assert "disk: not known" in out
    trained = {"sequential-1": 1e6}
    monkeypatch.setattr(estimate, "_trained_weights", lambda folder, planned: trained.get(planned.run.name))
    for kind, amount in (("record", 8), ("train", 16), ("evaluate", 6)):
        write_ended(folder, EndedJob(f"{kind}-x", kind, "", 3600.0, amount))
    assert main(["study", "plan", str(file), f"--output={folder.root}"]) == 0
    # 8 demonstrations, 168 samples in 8 different stages, 48 trials.
    assert "about 19.5 hours, job after job, at the rates of the jobs done here" in (out := capsys.readouterr().out)
    # All 8 runs have this policy: its weights of two stages each, and a training state of four times as much.
    assert "disk: about 48 MB of checkpoints" in out


def test_a_gpu_that_no_machine_has_is_said_before_any_work(file, tmp_path, capsys, monkeypatch):
    edited(file, 'device = "cpu"', 'device = "cuda"')
    monkeypatch.syspath_prepend(str(ARENAS))
    monkeypatch.setattr(command, "Cluster", lambda address, trainings: SimpleNamespace(has_gpu=False))
    assert main(["study", "run", str(file), f"--output={tmp_path}/out"]) == 2
    err = capsys.readouterr().err
    assert "Run sequential-1 asks for a GPU (device = 'cuda')" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_task_that_the_arena_lacks_is_said_before_any_work(file, tmp_path, capsys):
    edited(file, "fake_arena:FakeArena", "twin")
    assert main(["study", "run", str(file), f"--output={tmp_path}/out"]) == 2
    err = capsys.readouterr().err
    assert "Run sequential-1 of study points: Unknown task 'touch' of the arena 'twin'" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_run_on_the_cpu_takes_no_gpu_of_a_cluster(file, tmp_path, monkeypatch):
    machine = {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}}
    ray = SimpleNamespace(remote=lambda **options: lambda job: job)
    ray.cluster_resources, ray.nodes = lambda: machine["Resources"], lambda: [machine]
    monkeypatch.setattr(on_ray, "_start", lambda address: ray)

    def shares():
        jobs = make_jobs(load_study(str(file)), StudyFolder(tmp_path / "study"))
        found = {job.kind: (*Cluster(None, 2)._share(job), "--device" in job.command) for job in jobs}
        return found["train"][:2], found["evaluate"]

    assert shares() == ((4, 0), (4, 0, True))
    edited(file, 'device = "cpu"', 'preset = "cpu"')
    assert shares() == ((4, 0), (4, 0, True))
    edited(file, 'preset = "cpu"', 'preset = "cpu"\ndevice = "auto"')
    assert shares() == ((2, 0.5), (4, 1.0, False))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "somewhere", "127.0.0.1:x"])
def test_an_address_without_a_cluster_is_said_at_once(address):
    with pytest.raises(HoldfastError, match=rf"--address {address} has no Ray cluster"):
        Cluster(address, 1)


def test_a_parcel_takes_the_place_of_what_was_there(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "sub").mkdir(parents=True)
    (here / "sub" / "a").write_text("new")
    (here / ".lock").write_text("")
    (there / "old").mkdir(parents=True)
    unpack(pack(here), there)
    assert sorted(path.relative_to(there).as_posix() for path in there.rglob("*")) == ["sub", "sub/a"]
    unpack(pack(here / "sub" / "a"), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "here", "there"]


def test_a_job_elsewhere_names_only_paths_in_the_folder_it_was_given(file, tmp_path):
    folder = StudyFolder(tmp_path / "study")
    job = next(job for job in make_jobs(load_study(str(file)), folder) if job.kind == "train")
    places = outside(job, Path.cwd(), folder.root)
    assert places == {f"{tmp_path}/points.toml": "outside/0/points.toml"}
    there = moved(job, str(folder.root), places, "/scratch")
    assert str(tmp_path) not in json.dumps(there.command)
    assert "--stream=/scratch/outside/0/points.toml" in there.command
    assert "--share=/scratch/shared" in there.command
