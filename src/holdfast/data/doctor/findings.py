"""Results of the doctor: a dataset's summary, its faults, and their texts."""

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
from holdfast.embodiments.embodiment import TARGETS, Dimension, Embodiment

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One fault: its severity, its kind, where in the dataset it is, and what to do about it.

    An "error" means that training would refuse the dataset or learn something wrong; a "warning" needs a human check.
    """

    severity: Severity
    dataset: str
    kind: str
    where: str
    detail: str
    advice: str


@dataclass(frozen=True)
class Summary:
    """Size, cameras and names of a dataset."""

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
    """State or action of a dataset, with the embodiment's dimension for each of its own, or None if there is none."""

    word: str
    names: tuple[str, ...]
    values: np.ndarray
    dimensions: tuple[Dimension | None, ...]
    arms: tuple[str, ...] | None  # those of the task; None if unknown

    @property
    def known(self) -> np.ndarray:
        """Mask of the dimensions that the embodiment describes."""
        return np.array([d is not None for d in self.dimensions])

    @property
    def targets(self) -> np.ndarray:
        """Mask of the dimensions that are targets, or measure one: where they do not change, nothing moves."""
        return np.array([d is not None and d.kind in TARGETS for d in self.dimensions])

    @property
    def active(self) -> np.ndarray:
        """Mask of the dimensions that the task moves; all of them if unknown."""
        return np.array([self.arms is None or d is None or d.arm in self.arms for d in self.dimensions])

    def limits(self, steps: float, otherwise: np.ndarray) -> np.ndarray:
        """`steps` times the embodiment's control step for every dimension, `otherwise` where there is none."""
        return np.array([o if d is None else steps * d.step for d, o in zip(self.dimensions, otherwise, strict=True)])


@dataclass(frozen=True)
class Expected:
    """What is known about a dataset before it is opened; the less is known, the fewer faults can be found."""

    task: Task | None = None
    embodiment: Embodiment | None = None
    first: Summary | None = None  # the stream's first dataset, which the others must match
    mapping: Mapping | None = None  # the stream's mapping of the dataset
    chunk: int = 16

    def robot(self, source: Source) -> Embodiment | None:
        """The embodiment, if it has as many dimensions as this dataset's action."""
        size = len(self.embodiment.dimensions) if self.embodiment else 0
        return self.embodiment if source.action.shape[1] == size else None

    def features(self, source: Source) -> tuple[Feature, Feature]:
        """State and action, each with the embodiment's dimensions."""
        robot, pairing = self.robot(source), pair(source, self.robot(source))
        dimensions = robot.dimensions if robot else (None,) * source.action.shape[1]
        measured = tuple(dimensions[d] if d >= 0 else None for d in pairing.commands)
        arms = self.task.arms if self.task and robot else None
        return (
            Feature("state", source.state_names, source.state, measured, arms),
            Feature("action", source.action_names, source.action, dimensions, arms),
        )


def say_episodes(episodes: Iterable[int]) -> str:
    """Episodes as text, in ranges: `episodes 0-2, 5`."""
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
    """The command that removes episodes, unless most have the fault."""
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
    return f"Make a copy without them, in which the others are renumbered: {shlex.join(command)}"
