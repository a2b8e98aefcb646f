"""One demonstration of the expert, its images in a file, however large they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.twin.cell import CAMERAS
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import Expert

_cells: dict[str, CellEnv] = {}  # of this process: one at most, since each may hold a share of a GPU


@dataclass(frozen=True)
class RecordingOrder:
    """What to record. Layouts' seeds count up from `seed`; episodes are those of full score, in that order."""

    task: str
    episodes: int
    level: str
    height: int
    width: int
    seed: int


@dataclass(frozen=True)
class Demonstration:
    """A demonstration; `frames` holds its images, for each step and camera height x width x 3 bytes, if it is full."""

    seed: int
    full: bool
    states: np.ndarray
    actions: np.ndarray
    frames: Path


def demonstrate(order: RecordingOrder, seed: int, folder: Path) -> Demonstration:
    """Let the expert demonstrate the layout of a seed, in a tempo and on paths of its own, and render what it sees."""
    env = _cell(order.task)
    env.reset(seed, order.level)
    expert = Expert(env.world, env.task.scripts, seed)
    states, actions = [], []
    path = folder / f"{seed}.frames"
    with path.open("wb") as file:
        while not env.over and (action := expert.act()) is not None:
            seen = env.observe((order.height, order.width), CAMERAS)
            for image in seen.images.values():
                file.write(image.tobytes())
            states.append(seen.state)
            actions.append(action)
            env.step(action)
    full = env.done
    if not full:
        path.unlink()
    return Demonstration(seed, full, np.array(states), np.array(actions), path)


def _cell(task: str) -> CellEnv:
    if task not in _cells:
        for env in _cells.values():
            env.close()
        _cells.clear()
        _cells[task] = CellEnv(task)
    return _cells[task]
