"""A study of points in the fake arena, at toy size; and its processes."""

import os
from pathlib import Path

from toys import TINY

ARENAS = Path(__file__).parents[1] / "arenas"  # where the fake arena is
TASKS = """
[[task]]
name = "touch"
instruction = "Go to the mark."
arms = ["point"]
[[task]]
name = "mirror"
instruction = "Go to the other side."
arms = ["point"]
[[task.milestone]]
name = "near"
text = "Half of the way is done."
[[task.milestone]]
name = "there"
text = "The point is there."
needs = ["near"]
"""
STUDY = """
name = "points"
arena = "fake_arena:FakeArena"
seeds = [1, 2]
[record]
episodes = 4
size = 32
seed = 7
[train]
stream = "{folder}/points.toml"
device = "cpu"
steps = 4
batch_size = 4
norm.limit = 100
checkpoint.every = 2
{tiny}
[[grid]]
method = ["sequential", "er"]
[[grid]]
method = "er"
replay.frequency = [0.2, 0.5]
[evaluate]
trials = 2
"""
TRAIN = [*TINY, "--device=cpu", "--steps=4", "--batch_size=4", "--norm.limit=100"]  # as in the study


def write_study(folder):
    """Write the study and its stream."""
    (folder / "points.toml").write_text('name = "points"\n' + TASKS)
    tiny = "\n".join(flag.removeprefix("--").replace("=", " = ") for flag in TINY)
    file = folder / "study.toml"
    file.write_text(STUDY.format(folder=folder, tiny=tiny))
    return file


def edited(file, old, new):
    """Replace a part of the study's file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


def with_arena():
    """Environment variables under which the fake arena is found."""
    return {**os.environ, "PYTHONPATH": f"{ARENAS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def commands(kind, folder):
    """(command, worker, node) for each running command of a kind that belongs to a study: the ids of processes."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "holdfast" in words and kind in words and any(str(folder) in word for word in words):
                command = int(entry.name)
                yield command, parent(command), parent(parent(command))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended


def parent(process):
    """The parent of a process."""
    return int(_state(process)[1])


def is_alive(process):
    """Whether a process runs; one that has ended may stay in the list until somebody asks for its status."""
    try:
        return _state(process)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _state(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
