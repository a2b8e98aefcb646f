"""One demonstration of the expert. Its images are written to a file, since they may be large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from holdfast import arenas
from holdfast.arenas.arena import ArenaError
from holdfast.arenas.scored_episode import ScoredEpisode

_SHORTEST = 2  # frames of an episode: LeRobot has no statistics of a single one
_opened: dict[tuple[str, str], ScoredEpisode] = {}  # at most one per process, since each may hold GPU memory


@dataclass(frozen=True)
class RecordingOrder:
    """What to record. Seeds of layouts count up from `seed`; those with full score become episodes, in order."""

    task: str
    episodes: int
    level: str
    height: int
    width: int
    seed: int
    arena: str = "twin"


@dataclass(frozen=True)
class Demonstration:
    """A demonstration, `full` if it has full score and is not too short.

    `frames` then holds height x width x 3 bytes per step and camera. `failure` says why the arena did not finish it.
    """

    seed: int
    full: bool
    states: np.ndarray
    actions: np.ndarray
    frames: Path
    failure: str = ""


def demonstrate(order: RecordingOrder, seed: int, folder: Path, stepped: Callable[[], None]) -> Demonstration:
    """Let the expert demonstrate the layout of a seed, with its own speed and paths, and render the cameras.

    `stepped` is called after every control step.
    """
    path, failure = folder / f"{seed}.frames", ""
    try:
        with path.open("wb") as file:
            done, states, actions = _play(order, seed, file, stepped)
    except ArenaError as error:
        done, states, actions, failure = False, [], [], str(error)
        _close()
    full = done and len(states) >= _SHORTEST
    if not full:
        path.unlink()
    return Demonstration(seed, full, np.array(states), np.array(actions), path, failure)


def _play(
    order: RecordingOrder, seed: int, file: BinaryIO, stepped: Callable[[], None]
) -> tuple[bool, list[np.ndarray], list[np.ndarray]]:
    """Whether the expert has full score, the states and its actions; the images are written."""
    episode = _open(order.arena, order.task)
    episode.begin(seed, order.level)
    expert = episode.policy("expert", seed)
    size = order.height, order.width
    states, actions = [], []
    while not episode.over and (action := expert.act()) is not None:
        _write(file, episode.draw_frame(size), episode.arena.cameras)
        states.append(episode.observe().state)
        actions.append(action)
        episode.step(action)
        stepped()
    _write(file, episode.last_frames(size), episode.arena.cameras)
    return episode.done, states, actions


def _write(file: BinaryIO, frames: list[dict[str, np.ndarray]], cameras: Sequence[str]) -> None:
    for images in frames:
        for camera in cameras:
            file.write(images[camera].tobytes())


def _open(arena: str, task: str) -> ScoredEpisode:
    if (arena, task) not in _opened:
        _close()
        found = arenas.load(arena)
        _opened[arena, task] = ScoredEpisode(found, found.task(task))
    return _opened[arena, task]


def _close() -> None:
    for episode in _opened.values():
        episode.close()
    _opened.clear()
