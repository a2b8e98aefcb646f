"""The wheel, installed alone into an empty virtual environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toys import TINY

REPOSITORY = Path(__file__).parents[1]
UV = Path(sys.prefix) / "bin" / "uv"
pytestmark = pytest.mark.slow
PLUGINS = """
from lerobot.configs.policies import PreTrainedConfig
from lerobot.envs.configs import EnvConfig
from lerobot.robots.config import RobotConfig
from lerobot.utils.import_utils import register_third_party_plugins

register_third_party_plugins()
for kind in (PreTrainedConfig, EnvConfig, RobotConfig):
    print(*kind.get_known_choices())
"""


def uv(*words):
    subprocess.run([UV, *words], cwd=REPOSITORY, check=True, env=os.environ | {"UV_PYTHON": sys.executable})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an environment `venv` that has the wheel and what it asks for, in the lock's versions; no extra."""
    folder = tmp_path_factory.mktemp("wheel")
    constraints, python = folder / "constraints.txt", folder / "venv" / "bin" / "python"
    uv("build", "--quiet", "--wheel", "--out-dir", folder)
    locked = ("--frozen", "--no-emit-project", "--no-hashes", "--no-dev", "--extra", "twin")
    uv("export", "--quiet", *locked, "--output-file", constraints)
    uv("venv", "--quiet", folder / "venv")
    uv("pip", "install", "--quiet", "--python", python, "--constraints", constraints, *folder.glob("*.whl"))
    yield folder
    shutil.rmtree(folder)  # gigabytes


@pytest.fixture(scope="module")
def twin(folder):
    """The same environment, with the extra."""
    (wheel,) = folder.glob("*.whl")
    python, constraints = folder / "venv" / "bin" / "python", folder / "constraints.txt"
    uv(
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "--constraints",
        constraints,
        f"holdfast[twin] @ {wheel.as_uri()}",
    )
    return folder


def run(folder, program, *words, code=0):
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")  # what the first process compiles, others use
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    command = [folder / "venv" / "bin" / program, *words]
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_lerobot_finds_policies_robots_and_the_twin(folder):
    policies, arenas, robots = (line.split() for line in run(folder, "python", "-c", PLUGINS).splitlines())
    assert {"nano", "pi05_fast"} <= set(policies)
    assert "holdfast_twin" in arenas
    assert "piper_pair" in robots


def test_the_twin_is_an_extra(folder):
    assert not list((folder / "venv").glob("lib/*/site-packages/mujoco*"))
    said = run(folder, "holdfast", "twin", "score", "--task", "press_button", "--seeds", "1", code=2)
    assert "pip install 'holdfast[twin]'" in said


@pytest.mark.sim
def test_with_it_the_wheel_scores_records_and_trains(twin):
    folder = twin
    assert "100.0" in run(folder, "holdfast", "twin", "score", "--task", "press_button", "--seeds", "1")
    run(folder, "holdfast", "record", "--tasks", "press_button", "--episodes=2", "--size=32", "--output=data")
    flags = ("--stream=single_arm", "--tasks=[press_button]", "--data_root=data", "--device=cpu", "--batch_size=2")
    run(folder, "holdfast", "train", *flags, *TINY, "--steps=2", "--norm.limit=100", "--output=run")
    assert (folder / "run" / "stages" / "01-press_button").is_dir()
