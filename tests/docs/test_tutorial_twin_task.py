"""The page "Add a task to the twin" does what it says, in a copy of the package."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import blocks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "add_a_task_to_the_twin.md"

pytestmark = [pytest.mark.sim, pytest.mark.slow]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package, changed as the page says."""
    folder = tmp_path_factory.mktemp("package")
    heavy = shutil.ignore_patterns("__pycache__", "*.safetensors")
    shutil.copytree(ROOT / "src" / "holdfast", folder / "src" / "holdfast", ignore=heavy)
    for block in blocks(PAGE):
        if block.language == "toml":
            with (folder / "src/holdfast/catalog/tasks.toml").open("a") as file:
                file.write(block.text)
        elif block.language == "diff":
            table = folder / "src/holdfast/twin/tasks/__init__.py"
            table.write_text(table.read_text().replace("TASKS = {\n", "TASKS = {\n" + block.text.removeprefix("+")))
        elif block.title:
            (folder / block.title).write_text(block.text)
    return folder


def run(package, words):
    environment = {**os.environ, "PYTHONPATH": str(package / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "holdfast", *words]
    done = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_expert_solves_it_and_whoever_does_not_look_does_not(package):
    lines = [line for block in blocks(PAGE) if block.language == "bash" for line in block.text.splitlines()]
    expert, blind, watch = (shlex.split(line)[1:] for line in lines)
    assert json.loads(run(package, [*expert, "--json"]))["scores"] == [100, 100, 100]
    assert sum(json.loads(run(package, [*blind, "--json"]))["scores"]) <= 3 * 35
    assert "score 100 of 100" in run(package, watch)
    assert (package / "touch_block.mp4").stat().st_size > 10_000
