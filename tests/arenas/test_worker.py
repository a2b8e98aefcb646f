"""A simulator in a process of its own: it is an arena like others, and whatever it does costs one episode at most."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_arena import FakeArena, Point

from holdfast import arenas
from holdfast.arenas.arena import ArenaError
from holdfast.arenas.arena_file import WORKERS, read_arena_file
from holdfast.arenas.contract import ArenaContract
from holdfast.arenas.demonstrate import RecordingOrder, demonstrate
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.arenas.worker_arena import WorkerArena
from holdfast.arenas.worker_messages import SimulatorDescription, WorkerTask, read_description
from holdfast.core.errors import HoldfastError

HERE = Path(__file__).parent


def write(folder, worker=HERE / "hostile_worker.py", **options):
    """An arena's file for this Python."""
    file = folder / "toy.toml"
    faults = "".join(f'{seed} = "{fault}"\n' for seed, fault in options.items())
    python = json.dumps(sys.executable)
    file.write_text(f'python = {python}\nworker = "{worker}"\ntimeout = 300\n[options.faults]\n{faults}')
    return file


@pytest.fixture
def arena(tmp_path):
    return WorkerArena(write(tmp_path))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """What every layout gives where nothing is wrong."""
    made = WorkerArena(write(tmp_path_factory.mktemp("healthy")))
    episode = ScoredEpisode(made, made.task("touch"))
    return lambda seed: states(episode, seed)


def states(episode, seed):
    episode.begin(seed, "")
    seen = []
    for _ in range(4):
        episode.step(np.array([0.7, 0.7]))
        looked = episode.observe((8, 8), ("top",))
        seen.append((looked.state.tolist(), looked.images["top"].tolist(), episode.reached))
    return seen


class TestTemplate(ArenaContract):
    """What `holdfast arena new` writes, as it is written."""

    task = "touch"

    @pytest.fixture(autouse=True, scope="class")
    def _arena(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("template")
        (folder / "table.py").write_text((WORKERS / "template.txt").read_text())
        (folder / "table.toml").write_text(f'python = {json.dumps(sys.executable)}\nworker = "table.py"')
        type(self).arena = WorkerArena(folder / "table.toml")


def go_on(episode):
    episode.step(np.zeros(2))
    episode.observe((8, 8), ("top",))
    episode.step(np.zeros(2))


def hurry(arena, seconds):
    object.__setattr__(arena._file, "timeout", seconds)


FAULTS = {
    "die": "killed by signal 9",
    "leave": "ended with exit code 3",
    "crash": r"RuntimeError: the licence has \\x1b\[31mexpired",
    "hang": "did not answer in 0.5 s",
    "wrong_shape": r"its state must be 2 numbers of type float64, got float64 \(3,\)",
    "nan": r"its state must be finite, got \[nan, 0.0\]",
    "objects": "TypeError",
    "strange_milestone": r"reports milestones \['flown'\], its task has \['near', 'there'\]",
    "float_image": r"image of 'top' must be uint8 \(8, 8, 3\), got float64",
    "endless_message": "announces an answer of 4,294,967,295 bytes, at most 1,048,576 are allowed",
    "nonsense": "no msgpack that is accepted here",
    "pickle": "no msgpack that is accepted here",
    "early_answer": "its answer is not one to the question",
    "list_milestone": r"reports milestones \[\['near'\]\], its task has",
    "array_number": "its answer is not one to the question",
    "orphan": "killed by signal 9",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_one_episode_with_its_reason_and_the_next_is_as_if_nothing_had_happened(
    fault, healthy, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    arena = WorkerArena(write(tmp_path, **{"7": fault}))
    episode = ScoredEpisode(arena, arena.task("touch"))
    assert states(episode, 6) == healthy(6)
    episode.begin(7, "")
    episode.step(np.zeros(2))
    if fault == "hang":
        hurry(arena, 0.5)
    with pytest.raises(ArenaError, match=FAULTS[fault]) as caught:
        go_on(episode)
    assert len(str(caught.value)) < 3000
    hurry(arena, 300)
    assert states(episode, 8) == healthy(8)
    assert not (tmp_path / "executed").exists()


def test_a_worker_that_answers_without_reading_is_not_waited_for(tmp_path):
    arena = WorkerArena(write(tmp_path, **{"7": "deaf"}))
    environment = arena.open("touch")
    environment.reset(7, "")
    environment.step(np.zeros(2))
    hurry(arena, 2)

    def ask():
        for _ in range(20_000):  # more questions than a pipe holds
            environment.step(np.zeros(2))

    with pytest.raises(ArenaError, match="did not answer in 2 s"):
        ask()


def test_what_a_simulator_prints_disturbs_nothing(healthy, tmp_path):
    arena = WorkerArena(write(tmp_path, **{"7": "chatter"}))
    assert states(ScoredEpisode(arena, arena.task("touch")), 7) == healthy(7)


def test_an_open_task_has_its_own_process_and_a_closed_one_leaves_it_to_the_next(arena):
    first, second = (arena.open("touch") for _ in range(2))
    first.reset(1, "")
    second.reset(2, "")
    assert first._process is not second._process
    used = first._process
    first.close()
    third = arena.open("touch")
    third.reset(3, "")
    assert third._process is used


def test_its_processes_end_with_it(tmp_path):
    arena = WorkerArena(write(tmp_path))
    environment = arena.open("touch")
    environment.reset(1, "")
    process = environment._process._process
    assert process.poll() is None
    del arena, environment
    assert process.poll() is not None


def test_a_worker_ends_when_its_owner_is_killed(tmp_path):
    code = (
        "import sys, os, signal\nfrom pathlib import Path\nfrom holdfast.arenas.worker_arena import WorkerArena\n"
        f"arena = WorkerArena(Path({str(write(tmp_path))!r}))\n"
        "print(arena._idle[0]._process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    worker = int(done.stdout)
    for _ in range(600):
        if not _runs(worker):
            return
        os.sched_yield()
        subprocess.run(["sleep", "0.1"], check=True)
    raise AssertionError("it still runs")


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('no display')", "no display"),
        ("import no_such_simulator", "No module named 'no_such_simulator'"),
        ("x = 1", "must define one class derived from holdfast_worker.Simulator, it has 0"),
        ("from holdfast_worker import Simulator\nclass A(Simulator):\n    tasks = {}", "takes no arguments"),
    ],
)
def test_a_simulator_that_cannot_start_says_why(tmp_path, text, said):
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(HoldfastError, match=f"arena 'toy' failed in 'hello'.*{said}"):
        WorkerArena(write(tmp_path, "own.py"))


def test_a_worker_does_not_see_our_packages(tmp_path):
    text = "import os\nraise SystemExit(f\"path {os.environ.get('PYTHONPATH')}\")"
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(HoldfastError, match="path None"):
        WorkerArena(write(tmp_path, "own.py"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "python is missing"),
        ('python = "sh"', "worker is missing"),
        ('python = "no/such/python"\nworker = "gymnasium"', "there is no Python 'no/such/python'"),
        ('python = "sh"\nworker = "metawrld"', "Did you mean 'metaworld'.*give a file"),
        ('python = "sh"\nworker = "nowhere.py"', "there is no file 'nowhere.py'"),
        ('python = "sh"\nworker = "gymnasium"\ntimeout = 0', "timeout must be seconds above 0"),
        ('python = "sh"\nworker = "gymnasium"\nrate = 0', "rate must be from 1 to 10,000"),
        ('python = "sh"\nworker = "gymnasium"\ncolour = 1', "colour is not known"),
        ('python = "sh"\nworker = "gymnasium"\nname = "a/b"', "must be letters"),
    ],
)
def test_an_arenas_file_is_checked_before_anything_runs(tmp_path, monkeypatch, text, said):
    monkeypatch.setattr("holdfast.arenas.worker_arena.WorkerProcess", None)
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(HoldfastError, match=said):
        arenas.load(str(file))


def test_options_are_bounded(tmp_path):
    file = write(tmp_path)
    file.write_text(f"{file.read_text()}\n1 = {json.dumps('x' * 40_000)}")
    with pytest.raises(HoldfastError, match=r"is too long. Shorten its options"):
        WorkerArena(file)


def test_what_runs_in_a_simulators_python_can_be_read_by_an_old_one():
    for file in (WORKERS / "holdfast_worker.py", WORKERS / "template.txt"):
        ast.parse(file.read_text(), feature_version=(3, 8))
    imported = set(re.findall(r"^(?:import|from) (\w+)", (WORKERS / "holdfast_worker.py").read_text(), re.M))
    assert imported <= {*sys.stdlib_module_names, "numpy", "msgpack"}


def test_a_task_that_is_done_at_once_is_no_demonstration(tmp_path, monkeypatch):
    class Close(Point):
        def reset(self, seed, level):
            super().reset(seed, level)
            self.mark = np.full(2, 0.1 * seed)

    monkeypatch.setattr(FakeArena, "open", lambda self, task: Close(1))
    order = RecordingOrder("touch", 1, "", 8, 8, 0, "fake_arena:FakeArena")
    demonstrations = [demonstrate(order, seed, tmp_path, lambda: None) for seed in (1, 3)]
    assert [(len(found.states), found.full, found.frames.exists()) for found in demonstrations] == [
        (1, False, False),
        (2, True, True),
    ]


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "own.py").touch()
    (tmp_path / "python").symlink_to(sys.executable)
    file = tmp_path / "here.toml"
    file.write_text('python = "./python"\nworker = "own.py"')
    found = read_arena_file(file)
    assert (found.python, found.worker, found.name) == (str(tmp_path / "python"), str(tmp_path / "own.py"), "here")


def test_a_description_is_checked():
    good = {"protocol": 1, "tasks": {"touch": WorkerTask("Go.", 10)}, "rate": 10, "expert": False}
    names = {"state": ("x",), "action": ("x",), "cameras": ("top",), "levels": ("",)}
    SimulatorDescription(**good, **names)
    for change, said in (
        ({"protocol": 2}, "protocol 2"),
        ({"rate": 0}, "rate"),
        ({"state": ("x", "x")}, "different names"),
        ({"cameras": ()}, "cameras"),
        ({"cameras": ("../x",)}, "must be letters"),
        ({"kinds": {"z": "delta"}}, "Unknown action that has a kind 'z'"),
        ({"tasks": {"a/b": WorkerTask("Go.", 10)}}, "must be letters"),
        ({"tasks": {"touch": WorkerTask("Go.", 10, {"[b]there": "At it."})}}, "Milestones: name .* must be letters"),
        ({"tasks": {"touch": WorkerTask("Go.", 10, {"x" * 10**6: "At it."})}}, "Milestones: the name is too long"),
        ({"state": ("x\x1b[31m",)}, "state must be different names of at most 200 plain characters"),
        ({"action": tuple("x" * 10**6 + str(i) for i in range(2))}, "action must be different names"),
    ):
        with pytest.raises(HoldfastError, match=said) as caught:
            SimulatorDescription(**{**good, **names, **change})
        assert len(str(caught.value)) < 500
    assert SimulatorDescription(**good, **names).kinds == {}, "simulators of earlier versions name none"
    with pytest.raises(HoldfastError, match=r"kinds\.x: .*'delta', 'velocity' or 'binary', got 'go'"):
        read_description(
            {**good, **{word: list(some) for word, some in names.items()}, "tasks": {}, "kinds": {"x": "go"}}
        )
