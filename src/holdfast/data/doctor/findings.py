"""What the doctor writes down: a dataset's summary, its faults, and the words they are told in."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from holdfast.core.records import Mapping, Task
from holdfast.data.lerobot.source import Source
from holdfast.embodiments.embodiment import Embodiment

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One fault: how bad, what kind, where in the dataset (in words), and what to do about it.

    An "error" means that training would refuse the dataset or learn something wrong; a "warning" asks for a look.
    """

    severity: Severity
    dataset: str
    kind: str
    where: str
    detail: str
    advice: str


@dataclass(frozen=True)
class Summary:
    """What a dataset holds."""

    dataset: str
    episodes: int
    frames: int
    fps: float
    minutes: float
    mean_length: float
    cameras: dict[str, tuple[int, int]]  # key -> height, width
    names: tuple[str, ...]

    @classmethod
    def of(cls, source: Source) -> Summary:
        """Summarize an opened dataset."""
        frames, episodes = len(source.action), len(source.starts)
        cameras = {camera.key: (camera.height, camera.width) for camera in source.cameras}
        minutes = frames / source.fps / 60
        return cls(source.dataset, episodes, frames, source.fps, minutes, frames / episodes, cameras, source.names)


@dataclass(frozen=True)
class Expected:
    """What is known of a dataset before it is opened; the less is known, the fewer faults can be told."""

    task: Task | None = None
    embodiment: Embodiment | None = None
    first: Summary | None = None  # the stream's first dataset, which the others must match
    mapping: Mapping | None = None  # how the stream wants the dataset to be seen
    chunk: int = 16

    def robot(self, source: Source) -> Embodiment | None:
        """The embodiment, if state and action of this dataset can be its."""
        size = len(self.embodiment.dimensions) if self.embodiment else 0
        return self.embodiment if source.state.shape[1] == source.action.shape[1] == size else None

    def active(self, source: Source) -> np.ndarray:
        """Mask of the dimensions the task moves; all of them when that is not known."""
        robot = self.robot(source)
        if robot is None or self.task is None:
            return np.ones(source.action.shape[1], dtype=bool)
        return robot.active(self.task.arms)


def say_episodes(episodes: Iterable[int]) -> str:
    """Episodes in words, neighbours joined: `episodes 0-2, 5`."""
    runs: list[list[int]] = []
    for episode in sorted(int(e) for e in episodes):
        if runs and episode == runs[-1][-1] + 1:
            runs[-1][1:] = [episode]
        else:
            runs.append([episode])
    text = ", ".join("-".join(map(str, run)) for run in runs)
    return f"episode {text}" if text.isdigit() else f"episodes {text}"


def say_dimensions(source: Source, dimensions: Iterable[int]) -> str:
    """Dimensions by name, each once."""
    named = dict(enumerate(source.names))
    return ", ".join(named.get(d, f"dimension {d}") for d in sorted({int(d) for d in dimensions}))


def say_delete(source: Source, episodes: Iterable[int]) -> str:
    """The command that leaves episodes out, unless little would be left."""
    listed = sorted(int(e) for e in episodes)
    if 2 * len(listed) > len(source.starts):
        return "Most episodes have this fault: record or convert the dataset again."
    local = Path(source.dataset) == source.root
    command = [
        "lerobot-edit-dataset",
        f"--repo_id={f'local/{source.root.name}' if local else source.dataset}",
        f"--root={source.root}",
        f"--new_root={source.root if local else Path(source.dataset).name}_clean",
        "--operation.type=delete_episodes",
        f"--operation.episode_indices={listed}",
    ]
    return f"Make a copy without them, in which the others are numbered anew: {shlex.join(command)}"
