"""Toy datasets, recorded once per test session; tests that hurt them work on copies."""

import shutil
from pathlib import Path

import pytest

TASKS = {"reach": ("left",), "lift": ("left", "right"), "sweep": ("left",)}
TINY = (
    "--policy.image_size=32",
    "--policy.width=64",
    "--policy.heads=2",
    "--policy.encoder_layers=1",
    "--policy.decoder_layers=1",
    "--policy.chunk_size=8",
    "--policy.n_action_steps=4",
)


def stream_text(names=tuple(TASKS), embodiment="piper_x_pair"):
    """A stream file with the given toy tasks."""
    lines = ['name = "toy"', f'embodiment = "{embodiment}"' if embodiment else ""]
    for name in names:
        lines += ["[[task]]", f'name = "{name}"', f'instruction = "Please {name}."', f"arms = {list(TASKS[name])}"]
        lines += [f'dataset = "{name}"']
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """A folder with one dataset per toy task: two cameras of 32 px, six episodes of 14 frames."""
    from holdfast.data.generate import write_dataset
    from holdfast.embodiment import load
    from holdfast.records import Task

    folder = tmp_path_factory.mktemp("recorded")
    for name, arms in TASKS.items():
        write_dataset(
            folder / name, Task(name, f"Please {name}.", arms), load("piper_x_pair"), episodes=6, length=14, size=32
        )
    return folder


@pytest.fixture
def toy(recorded, tmp_path) -> Path:
    """A private copy of the datasets with a stream file `stream.toml` beside them."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stream.toml").write_text(stream_text())
    return tmp_path
