"""Whole studies on Ray: killed in many ways, on machines that come and go, and on one that does not see the folder."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from point_study import ARENAS, TASKS, TRAIN, commands, edited, is_alive, with_arena, write_study
from warm_commands import warm_commands

from holdfast.cli import main
from holdfast.core import checked_folder
from holdfast.evaluate import engine
from holdfast.evaluate.workers import run_share
from holdfast.runs.run_log import read_lines
from holdfast.runs.trials import Trials

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(autouse=True)
def warm(tmp_path_factory, monkeypatch):
    """Processes of this test find the fake arena, and commands do not import LeRobot anew."""
    monkeypatch.setenv("PYTHONPATH", with_arena()["PYTHONPATH"])
    with warm_commands(tmp_path_factory.mktemp("warm")) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def cluster(monkeypatch):
    """Two Ray nodes of one core each, which may be killed while they work, and a head without cores."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("WORK_PAUSES", "0.4")
    # A node that was killed is given up after a second, not after a quarter of a minute.
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "2")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node()
    yield cluster
    cluster.shutdown()


class StudyProcess:
    """`holdfast study run` in a process of its own, with what is needed to hurt it."""

    def __init__(self, file, folder, cluster):
        self.file, self.folder, self.cluster = file, folder, cluster
        self.start()

    def start(self):
        words = ["study", "run", str(self.file), f"--output={self.folder}", f"--address={self.cluster.address}"]
        where = self.file.parent  # flags may name files relative to it
        self.driver = subprocess.Popen([sys.executable, "-m", "holdfast", *words], cwd=where)

    def found(self, *kinds):
        """A running command of one of these kinds, its worker and its node; waits for one."""
        while True:
            assert self.driver.poll() is None, f"the study was over before a command of {kinds} could be killed"
            nodes = {node.all_processes["raylet"][0].process.pid: node for node in self.cluster.worker_nodes}
            for command, worker, raylet in (one for kind in kinds for one in commands(kind, self.folder)):
                if raylet in nodes:  # else it has just lost its worker
                    return command, worker, nodes[raylet]
            time.sleep(0.3)

    def kill_driver(self, pause, *kinds):
        self.found(*kinds)
        time.sleep(pause)
        self.driver.kill()
        self.driver.wait()
        self.start()

    def stop_driver(self, pause, *kinds):
        self.found(*kinds)
        time.sleep(pause)
        self.driver.terminate()
        assert self.driver.wait() == 130, "it says how to go on, as after Ctrl-C"
        self.start()

    def kill_worker(self, pause, *kinds):
        command, worker, _ = self.found(*kinds)
        time.sleep(pause)
        kill(worker)
        wait_for_end(command)

    def kill_node(self, pause, *kinds):
        command, _, node = self.found(*kinds)
        time.sleep(pause)
        self.cluster.remove_node(node, allow_graceful=False)
        wait_for_end(command)
        self.cluster.add_node()


def kill(process):
    with contextlib.suppress(ProcessLookupError):  # its job was done in the pause
        os.kill(process, signal.SIGKILL)


def wait_for_end(process):
    """A command ends with its worker and with its node. Only the test's own limit of time can end this."""
    while is_alive(process):
        time.sleep(0.05)


def results(run):
    """Weights of every stage and all trials, without when they ran."""
    stages = sorted((run / "stages").iterdir())
    weights = [checked_folder.file_hash(s / "checkpoint" / "policy" / "model.safetensors") for s in stages]
    with Trials(run / "trials.sqlite") as file:
        return weights, sorted((t.stage, t.task, t.seed, t.score, t.weights) for t in file.all())


def undisturbed(run, *flags):
    """The results of a run on its own, without Ray and without other processes."""
    assert main(["train", *TRAIN, f"--output={run}", *flags]) == 0
    trials = ["--trials=2", "--cells=needed", "--device=cpu", "--arena=fake_arena:FakeArena"]
    assert main(["evaluate", str(run), *trials]) == 0
    return results(run)


@pytest.fixture
def in_process(monkeypatch):
    """Trials of this process run here: new processes would import LeRobot again and again."""
    monkeypatch.syspath_prepend(str(ARENAS))

    def local(setup, checkpoint, processes, watch):
        return lambda orders: (trial for order in orders for trial in run_share(setup, [order]))

    monkeypatch.setattr(engine, "local", local)


def stages_trained(run):
    """The stages that a run has trained itself."""
    lines = read_lines(run / "audit.jsonl")
    taken = {line["stage"] for line in lines if line["event"] == "taken_over"}
    return {int(stage.name[:2]) for stage in (run / "stages").iterdir()} - taken


def test_a_study_killed_five_times_ends_as_if_undisturbed_and_trains_each_stage_once(cluster, in_process, tmp_path):
    file, folder = write_study(tmp_path), tmp_path / "study"
    _, touch, mirror = TASKS.split("[[task]]")
    (tmp_path / "back.toml").write_text(f'name = "back"\n[[task]]{mirror}\n[[task]]{touch}')
    both = '\nstream = ["points.toml", "back.toml"]'
    edited(file, f'stream = "{tmp_path}/points.toml"\n', "")
    edited(file, 'method = ["sequential", "er"]', 'method = ["sequential", "er"]' + both)
    edited(file, 'method = "er"\nreplay.frequency = [0.2, 0.5]', 'method = "joint"' + both)
    number = random.randrange(10**6)
    print(f"moments of the kills: seed {number}")
    pause = random.Random(number).uniform
    study = StudyProcess(file, folder, cluster)
    study.kill_driver(pause(0, 2), "record")
    study.kill_worker(pause(0, 2), "train")
    study.kill_node(pause(0, 2), "train")
    study.stop_driver(pause(0, 2), "train", "evaluate")  # trainings may have ended in the pauses
    study.kill_node(pause(0, 2), "evaluate")
    assert study.driver.wait() == 0
    assert (folder / "report" / "metrics.json").exists()
    assert not (folder / "shared").exists()

    runs = [path.name for path in (folder / "runs").iterdir()]
    assert len(runs) == 2 * 3 * 2  # streams, methods, seeds
    # For each stream and seed: the first task once for both methods, a second stage of each, and joint training.
    assert sum(len(stages_trained(folder / "runs" / name)) for name in runs) == 4 * (1 + 2 + 1)
    for name in runs:
        stream, method, seed = name.rsplit("-", 2)
        flags = [f"--stream={tmp_path}/{stream}", f"--data_root={folder}/data/all", f"--seed={seed}"]
        assert results(folder / "runs" / name) == undisturbed(tmp_path / name, *flags, f"--method={method}"), name


def test_a_machine_that_does_not_see_the_folder_gets_what_it_needs_and_sends_results_back(in_process, tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    file, folder = write_study(tmp_path), tmp_path / "study"
    edited(file, "seeds = [1, 2]", "seeds = [1]")
    edited(file, 'method = ["sequential", "er"]', 'method = "sequential"')
    edited(file, "[0.2, 0.5]", "[0.5]")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.add_node(env_vars={"UNSEEN": str(tmp_path)})
    try:
        assert main(["study", "run", str(file), f"--output={folder}", f"--address={cluster.address}"]) == 0
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert (folder / "report" / "metrics.json").exists()
    assert "Finished" in (folder / "logs" / "train-sequential-1.log").read_text()
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == [
        *("data", "jobs.jsonl", "logs", "report", "runs", "study.json")
    ]
    assert stages_trained(folder / "runs" / "sequential-1") == {1, 2}
    assert stages_trained(folder / "runs" / "er-1") == {2}
    flags = [f"--stream={tmp_path}/points.toml", f"--data_root={folder}/data/all", "--replay.frequency=0.5", "--seed=1"]
    for name, method in (("sequential-1", "sequential"), ("er-1", "er")):
        assert results(folder / "runs" / name) == undisturbed(tmp_path / name, *flags, f"--method={method}")
