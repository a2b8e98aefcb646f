"""Who only trains, serves or evaluates elsewhere needs no MuJoCo; who opens the twin is told what to install."""

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from fake_arena import STREAM
from toys import TINY, fork_workers

from holdfast import arenas
from holdfast.arenas.twin import contact_sheet, make_base, write_task_page
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.processes import FORKED

HERE = Path(__file__).parent
NEEDED = r"The twin needs MuJoCo. Install it with: pip install 'holdfast\[twin\]'"


def _work_without_mujoco(folder):
    """Record, train and try, in a process of its own that cannot import MuJoCo, nor can those that it starts."""
    assert "mujoco" not in sys.modules, "the fork server has imported it with the commands"
    sys.modules["mujoco"] = None
    fork_workers()
    os.chdir(folder)
    with Path("said.txt").open("w") as said, redirect_stdout(said), redirect_stderr(said):
        fake = "--arena=fake_arena:FakeArena"
        record = ["record", fake, "--tasks", "touch", "mirror", "--episodes", "2", "--size", "32", "--processes", "1"]
        assert main([*record, "--output", "data"]) == 0
        train = ["train", "--stream=stream.toml", "--output=run", "--device=cpu", *TINY]
        assert main([*train, "--steps=2", "--batch_size=4", "--norm.limit=100"]) == 0
        assert main(["evaluate", "run", fake, "--device=cpu", "--processes=2", "--trials=1"]) == 0
        assert main(["metrics", "run"]) == 0
        for command in ("serve", "train", "record", "watch", "rollout", "twin", "evaluate"):
            with pytest.raises(SystemExit, match=r"^0$"):
                main([command, "--help"])


@pytest.mark.slow
def test_recording_training_metrics_and_trials_elsewhere_need_none(tmp_path):
    (tmp_path / "stream.toml").write_text(STREAM)
    process = FORKED.Process(target=_work_without_mujoco, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0, (tmp_path / "said.txt").read_text()[-4000:]


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
