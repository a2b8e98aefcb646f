"""Simulators of different Pythons: recorded, learned by one policy, and evaluated with one command."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from own_python import make_python, write_arena
from toys import TINY

from holdfast import arenas
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.runs.trials import Trials

FAKE = "fake_arena:FakeArena"
WORKER = Path(__file__).parent / "hostile_worker.py"
STREAM = """
name = "two"
[[task]]
name = "touch"
instruction = "Go to the mark."
arms = ["arm"]
dataset = "data/touch"
[[task]]
name = "mirror"
instruction = "Go to the other side."
arms = ["arm"]
dataset = "data/mirror"
"""


# A simulator that needs a package of its own: the same point, seen from the other side.
OTHER = """
import numpy as np
from holdfast_worker import Simulator
from {package} import SIDE


class Mirror(Simulator):
    tasks = {{"mirror": "Go to the other side."}}
    state = action = ("x", "y")
    cameras = ("top",)
    rate, max_steps = 10, 20

    def begin(self, task, seed, level):
        self.at, self.mark = np.zeros(2), SIDE * np.random.default_rng(seed).uniform(0.4, 0.8, 2)

    def step(self, action):
        self.at = np.clip(action, self.at - 0.2, self.at + 0.2)

    def measure(self):
        return self.at

    def success(self):
        return np.abs(self.mark - self.at).max() < 0.1

    def draw(self, camera, height, width):
        return np.full((height, width, 3), 200 * abs(self.mark[0]), np.uint8)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that has learned a task of each of two simulators; the first dies in the layout of seed 1."""
    folder = tmp_path_factory.mktemp("two")
    toy = folder / "toy.toml"
    toy.write_text(f'python = {json.dumps(sys.executable)}\nworker = "{WORKER}"\n[options.faults]\n1 = "die"\n')
    for arena, task in ((str(toy), "touch"), (FAKE, "mirror")):
        record = ["record", "--arena", arena, "--tasks", task, "--episodes", "2", "--size", "32", "--processes", "1"]
        assert main([*record, "--output", str(folder / "data")]) == 0
    (folder / "stream.toml").write_text(STREAM)
    train = ["train", f"--stream={folder / 'stream.toml'}", f"--output={folder / 'run'}", "--device=cpu", *TINY]
    assert main([*train, "--steps=2", "--batch_size=4", "--norm.limit=100", "--policy.use_relative_actions=false"]) == 0
    return folder


@pytest.fixture
def run(folder, tmp_path):
    return shutil.copytree(folder / "run", tmp_path / "run")


@pytest.mark.slow
def test_from_demonstrations_to_scores_with_one_simulator_that_dies(folder, run, capsys):
    toy = folder / "toy.toml"
    evaluate = ["evaluate", str(run), "--device=cpu", "--processes=1", "--trials=3"]
    assert main([*evaluate, "--arena", str(toy)]) == 0
    assert "Left out: mirror" in capsys.readouterr().out
    both = [*evaluate, "--arena", str(toy), "--arena", FAKE]
    assert main(both) == 0
    assert "seed 1: not valid. The worker of the arena 'toy' failed in 'step': it was killed" in read(capsys, run)
    found = trials(run)
    assert {(trial.task, trial.source) for trial in found} == {("touch", "toy"), ("mirror", "fake")}
    assert [(t.stage, t.task, t.seed) for t in found if not t.valid] == [(1, "touch", 1), (2, "touch", 1)]
    assert sum(trial.valid for trial in found) == 2 + 2 + 3
    assert main(both) == 0
    assert trials(run) == found, "a trial that failed is not repeated"
    assert main([*evaluate, "--arena", FAKE, "--arena", str(toy), "--tasks", "push"]) == 2
    assert main([*evaluate, "--arena", FAKE, "--arena", "twin", "--tasks", "touch"]) == 0
    assert [t for t in trials(run) if (t.task, t.source) != ("touch", "fake")] == found, (
        "each arena has trials of its own"
    )
    assert main(["report", str(run)]) == 0


@pytest.mark.slow
def test_two_environments_whose_packages_exclude_each_other_serve_one_command(folder, run, tmp_path):
    made = []
    for package, side in (("left_world", 1), ("right_world", -1)):
        place = tmp_path / package
        python = make_python(place, {f"{package}.py": f"SIDE = {side}"})
        (place / "mirror.py").write_text(
            OTHER.format(package=package).replace("mirror", "touch" if side > 0 else "mirror")
        )
        made.append(str(write_arena(place, python, "mirror.py", {}, package)))
    for file in made:  # neither works in the other's environment
        text = Path(file).read_text()
        other = next(one for one in made if one != file)
        wrong = tmp_path / "wrong.toml"
        wrong.write_text(text.replace(str(Path(file).parent / "env"), str(Path(other).parent / "env")))
        wrong.write_text(wrong.read_text().replace('"mirror.py"', json.dumps(str(Path(file).parent / "mirror.py"))))
        with pytest.raises(HoldfastError, match="No module named"):
            arenas.load(str(wrong))
    both = [word for file in made for word in ("--arena", file)]
    assert main(["evaluate", str(run), "--device=cpu", "--processes=1", "--trials=1", "--stages=2", *both]) == 0
    found = {(trial.task, trial.source, trial.valid) for trial in trials(run)}
    assert found == {("touch", "left_world", True), ("mirror", "right_world", True)}


def read(capsys, run):
    """What was printed and stored about trials that are not valid."""
    notes = [f"seed {trial.seed}: not valid. {trial.notes}" for trial in trials(run) if not trial.valid]
    return " ".join([*capsys.readouterr().out.split(), *notes])


def trials(run):
    with Trials(run / "trials.sqlite") as file:
        return file.all()
