"""What the doctor writes down: a dataset's summary, its faults, and the words they are told in."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from holdfast.core.records import Mapping, Task
from holdfast.data.lerobot.source import Source
from holdfast.data.lesson import pair
from holdfast.embodiments.embodiment import Dimension, Embodiment

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
    names: tuple[str, ...]  # of the action
    state_names: tuple[str, ...]

    @classmethod
    def of(cls, source: Source) -> Summary:
        """Summarize an opened dataset."""
        frames, episodes = len(source.action), len(source.starts)
        cameras = {camera.key: (camera.height, camera.width) for camera in source.cameras}
        return cls(
            source.dataset,
            episodes,
            frames,
            source.fps,
            frames / source.fps / 60,
            frames / episodes,
            cameras,
            source.action_names,
            source.state_names,
        )


@dataclass(frozen=True)
class Feature:
    """State or action of a dataset, with the embodiment's dimension for each of its own, or None where it has none."""

    word: str
    names: tuple[str, ...]
    values: np.ndarray
    dimensions: tuple[Dimension | None, ...]
    arms: tuple[str, ...] | None  # those of the task; None when they are not known

    @property
    def known(self) -> np.ndarray:
        """Mask of the dimensions that the embodiment describes."""
        return np.array([d is not None for d in self.dimensions])

    @property
    def active(self) -> np.ndarray:
        """Mask of the dimensions that the task moves; all of them when that is not known."""
        return np.array([self.arms is None or d is None or d.arm in self.arms for d in self.dimensions])

    def limits(self, steps: float, otherwise: np.ndarray) -> np.ndarray:
        """So many of the embodiment's control steps for every dimension, `otherwise` where it says nothing."""
        return np.array([o if d is None else steps * d.step for d, o in zip(self.dimensions, otherwise, strict=True)])


@dataclass(frozen=True)
class Expected:
    """What is known of a dataset before it is opened; the less is known, the fewer faults can be told."""

    task: Task | None = None
    embodiment: Embodiment | None = None
    first: Summary | None = None  # the stream's first dataset, which the others must match
    mapping: Mapping | None = None  # how the stream wants the dataset to be seen
    chunk: int = 16

    def robot(self, source: Source) -> Embodiment | None:
        """The embodiment, if the action of this dataset can be its."""
        size = len(self.embodiment.dimensions) if self.embodiment else 0
        return self.embodiment if source.action.shape[1] == size else None

    def features(self, source: Source) -> tuple[Feature, Feature]:
        """State and action, each with what the embodiment says of its dimensions."""
        robot, pairing = self.robot(source), pair(source, self.robot(source))
        dimensions = robot.dimensions if robot else (None,) * source.action.shape[1]
        measured = tuple(dimensions[d] if d >= 0 else None for d in pairing.commands)
        arms = self.task.arms if self.task and robot else None
        return (
            Feature("state", source.state_names, source.state, measured, arms),
            Feature("action", source.action_names, source.action, dimensions, arms),
        )


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


def say_dimensions(names: Sequence[str], dimensions: Iterable[int]) -> str:
    """Dimensions by name, each once."""
    return ", ".join(names[d] for d in sorted({int(d) for d in dimensions}))


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
