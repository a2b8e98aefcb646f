"""Who only trains, serves or evaluates elsewhere needs no MuJoCo; who opens the twin is told what to install."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_arena import STREAM
from toys import TINY

from holdfast import arenas
from holdfast.arenas.twin import contact_sheet, make_base, write_task_page
from holdfast.cli import main
from holdfast.core.errors import HoldfastError

HERE = Path(__file__).parent
NEEDED = r"The twin needs MuJoCo. Install it with: pip install 'holdfast\[twin\]'"
# A process that cannot import MuJoCo, nor can those that it starts.
HIDDEN = 'import sys\nsys.modules["mujoco"] = None\n'
SCRIPT = f"""
import sys
from holdfast.cli import main

assert sys.modules["mujoco"] is None
fake, tiny = "--arena=fake_arena:FakeArena", {TINY!r}
record = ["record", fake, "--tasks", "touch", "mirror", "--episodes", "2", "--size", "32", "--processes", "1"]
assert main([*record, "--output", "data"]) == 0
train = ["train", "--stream=stream.toml", "--output=run", "--device=cpu", *tiny]
assert main([*train, "--steps=2", "--batch_size=4", "--norm.limit=100"]) == 0
assert main(["evaluate", "run", fake, "--device=cpu", "--processes=2", "--trials=1"]) == 0
assert main(["metrics", "run"]) == 0
for command in ("serve", "train", "record", "watch", "rollout", "twin", "evaluate"):
    try:
        main([command, "--help"])
    except SystemExit as end:
        assert end.code == 0, command
"""


@pytest.mark.slow
def test_recording_training_metrics_and_trials_elsewhere_need_none(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDDEN)
    (tmp_path / "stream.toml").write_text(STREAM)
    path = os.pathsep.join([str(tmp_path), str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.fixture
def _hidden(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)


@pytest.mark.usefixtures("_hidden")
@pytest.mark.parametrize(
    "command",
    [
        ["twin", "score", "--task", "press_button"],
        ["watch", "--task", "press_button", "--out", "x.mp4"],
        ["record", "--tasks", "press_button", "--episodes", "1", "--output", "data"],
        ["rollout", "--task", "press_button", "--server", "ws://127.0.0.1:1"],
        ["arena", "check", "twin"],
    ],
)
def test_a_command_that_opens_the_twin_says_what_to_install(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert "pip install 'holdfast[twin]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_hidden")
def test_every_way_into_the_twin_says_so(tmp_path):
    from holdfast.twin.gym import TwinEnv

    twin = arenas.load("twin")
    assert len(twin.tasks) == 10, "names need no simulator"
    for attempt in (
        lambda: twin.task("press_button"),
        lambda: twin.max_steps("press_button"),
        lambda: twin.open("press_button"),
        lambda: contact_sheet("press_button", "expert", 0, "standard", False, 4),
        lambda: list(write_task_page(tmp_path, None)),
        lambda: make_base(tmp_path, None, dry_run=True),
        lambda: TwinEnv("press_button"),
    ):
        with pytest.raises(HoldfastError, match=NEEDED):
            attempt()
    assert not list(tmp_path.iterdir())


def test_nothing_outside_the_twin_imports_mujoco():
    source = HERE.parents[1] / "src" / "holdfast"
    # The window is opened on a cell that exists; a worker runs in its simulator's own Python.
    allowed = {source / "arenas" / "twin.py", *(source / "arenas" / "worker").glob("*.py")}
    found = {file for file in source.rglob("*.py") if "import mujoco" in file.read_text()}
    assert {file for file in found - allowed if (source / "twin") not in file.parents} == set()
