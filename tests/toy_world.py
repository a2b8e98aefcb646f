"""A toy world without a simulator: a coloured mark on a table, and arms that move according to its position.

Every task maps the mark's position to a different arm motion. The tasks share the scene and differ in colour and
instruction, so a network that learns them in sequence forgets earlier ones, as it would on a robot.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from holdfast.core.records import Task
from holdfast.data.lerobot.writer import dataset_writer, frame
from holdfast.embodiments.embodiment import Embodiment

CAMERAS = ("head", "front")


def write_dataset(
    root: Path,
    task: Task,
    embodiment: Embodiment,
    *,
    episodes: int,
    length: int = 24,
    size: int = 64,
    cameras: tuple[str, ...] = CAMERAS,
    seed: int = 0,
) -> None:
    """Record demonstrations of a toy task into a LeRobot dataset at `root`."""
    with dataset_writer(
        root, fps=30, names=embodiment.names, cameras=cameras, height=size, width=size, robot=embodiment.name
    ) as dataset:
        for episode in range(episodes):
            rng = np.random.default_rng([seed, zlib.crc32(task.name.encode()), episode])
            mark = rng.uniform(-1, 1, 2)
            state, action = _trajectory(task, embodiment, mark, length, rng)
            for t in range(length):
                images = {camera: _image(task, camera, mark, size, rng) for camera in cameras}
                dataset.add_frame(frame(task.instruction, state[t], action[t], images))
            dataset.save_episode()


def _trajectory(
    task: Task, embodiment: Embodiment, mark: np.ndarray, length: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A smooth motion of the task's arms from a rest pose to the pose that the mark determines; other arms jitter."""
    lower, upper = embodiment.state_range()
    active = embodiment.active(task.arms)
    rest = lower + (upper - lower) * np.linspace(0.4, 0.6, len(lower))
    # The task's mapping from mark to motion: known to the demonstrator, to be learned by the policy.
    mapping = np.random.default_rng(zlib.crc32(task.name.encode())).uniform(-1, 1, (len(lower), 2))
    start = rest + active * 0.02 * (upper - lower) * rng.uniform(-1, 1, len(lower))
    goal = rest + 0.18 * (upper - lower) * (mapping @ mark)
    progress = np.linspace(0, 1, length + 1)[:, None]
    smooth = progress**2 * (3 - 2 * progress)
    path = np.where(active, start + (goal - start) * smooth, rest)
    path = path + 1e-4 * rng.standard_normal(path.shape) * (upper - lower)
    return path[:-1], path[1:]


def _image(task: Task, camera: str, mark: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """A table with the mark on it, seen upright or, from the front camera, from the other side."""
    colour = np.random.default_rng(zlib.crc32(task.instruction.encode())).integers(40, 256, 3)
    place = mark if camera != "front" else -mark
    grid = np.linspace(-1.4, 1.4, size)
    inside = (np.abs(grid[None, :] - place[0]) < 0.25) & (np.abs(grid[:, None] - place[1]) < 0.25)
    table = rng.integers(96, 112, (size, size, 1)).repeat(3, axis=2)
    return np.where(inside[..., None], colour, table).astype(np.uint8)
