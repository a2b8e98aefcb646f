"""Frozen records that cross module borders. They hold values and check them; they do no work."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from holdfast.core.errors import HoldfastError


@dataclass(frozen=True)
class Milestone:
    """One point of a rubric, awarded only when every milestone named in `needs` was reached too."""

    name: str
    text: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Penalty:
    """A deduction of `value` points, given at most `most` times (once, or once per object)."""

    name: str
    text: str
    value: float
    most: int = 1


@dataclass(frozen=True)
class Task:
    """An instruction, the arms it uses, and a rubric."""

    name: str
    instruction: str
    arms: tuple[str, ...]
    title: str = ""
    milestones: tuple[Milestone, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    final: str = ""
    demonstrations: int | None = None
    group: str = ""

    def __post_init__(self) -> None:
        if not self.instruction.strip():
            raise HoldfastError(f"Task {self.name!r} has an empty instruction.")
        if not self.arms or len(set(self.arms)) != len(self.arms):
            raise HoldfastError(f"Task {self.name!r} must name each arm it uses once, got {list(self.arms)}.")
        names = [m.name for m in self.milestones]
        if len(set(names)) != len(names):
            raise HoldfastError(f"Task {self.name!r} has two milestones of one name: {names}.")
        for position, milestone in enumerate(self.milestones):
            late = [n for n in milestone.needs if n not in names[:position]]
            if late:
                raise HoldfastError(
                    f"Milestone {milestone.name!r} of task {self.name!r} needs {late}, not earlier milestones of it."
                )
        for penalty in self.penalties:
            if penalty.value <= 0 or penalty.most < 1:
                raise HoldfastError(
                    f"Penalty {penalty.name!r} of task {self.name!r} must deduct more than 0 at least once, "
                    f"got value {penalty.value} and most {penalty.most}."
                )
        if not self.group:
            object.__setattr__(self, "group", "single" if len(self.arms) == 1 else "bimanual")
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " ").capitalize())


@dataclass(frozen=True)
class Mapping:
    """How a dataset is to be seen where it differs from the run's schema; written down, never guessed.

    `cameras` names every camera of the run with the dataset's camera that it is, or with `black 480x640` for a camera
    that the dataset lacks. `dimensions` lists the dataset's dimensions in the order of the run's. `fps` is the run's
    frame rate, of which the dataset's must be a whole multiple: the frames in between are left out.
    """

    cameras: dict[str, str] = field(default_factory=dict)
    dimensions: tuple[str, ...] = ()
    fps: float | None = None

    def __post_init__(self) -> None:
        real = [key for key in self.cameras.values() if not black(key)]
        for word, names in (("camera", real), ("dimension", list(self.dimensions))):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise HoldfastError(f"The mapping uses {word} {twice[0]!r} of the dataset twice.")
        if self.fps is not None and self.fps <= 0:
            raise HoldfastError(f"'fps' must be above 0, got {self.fps:g}.")

    def __str__(self) -> str:
        """In words, for a person."""
        said = [f"{name} is {key if black(key) else repr(key)}" for name, key in self.cameras.items()]
        said += [f"dimensions in the order {', '.join(self.dimensions)}"] if self.dimensions else []
        said += [f"{self.fps:g} frames per second"] if self.fps else []
        return "; ".join(said)


def black(key: str) -> tuple[int, int] | None:
    """Height and width of a camera that is not there, written `black 480x640`; None for the name of a real one."""
    found = re.fullmatch(r"black (\d+)x(\d+)", key)
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class StreamTask:
    """A task of a stream together with where its demonstrations lie (a folder or a hub id) and how they are seen."""

    task: Task
    dataset: str
    mapping: Mapping | None = None


@dataclass(frozen=True)
class Stream:
    """An ordered list of tasks with their datasets, on one embodiment."""

    name: str
    tasks: tuple[StreamTask, ...]
    embodiment: str | None = None

    def __post_init__(self) -> None:
        if not self.tasks:
            raise HoldfastError(f"Stream {self.name!r} lists no task.")
        names = [entry.task.name for entry in self.tasks]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise HoldfastError(f"Stream {self.name!r} lists {twice} more than once.")

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names in order."""
        return tuple(entry.task.name for entry in self.tasks)


@dataclass(frozen=True)
class Stage:
    """One stretch of training: what it learns, for how long, from which weights, with how much replay."""

    number: int  # from 1
    name: str
    learns: tuple[int, ...]  # positions in the stream
    steps: int
    frequency: float = 0.0
    start: Literal["base", "previous"] = "previous"

    @property
    def folder(self) -> str:
        """Name of the stage's folder in a run."""
        return f"{self.number:02d}-{self.name}"


@dataclass(frozen=True)
class Reached:
    """What an episode has reached, as its judge saw it; the rubric turns it into a score.

    `final` says whether the task's final condition holds. Where a task has no milestones it is plain success.
    """

    milestones: tuple[str, ...] = ()
    penalties: dict[str, int] = field(default_factory=dict)
    final: bool = False


@dataclass(frozen=True)
class TrialProtocol:
    """How a trial was made: trials of one cell must agree in it, else their mean says nothing.

    `horizon` steps of every chunk are carried out, the next chunk is asked for `ahead` steps before they are over, and
    with `limits` every command passes the robot's limits first.
    """

    horizon: int
    ahead: int = 0
    limits: bool = False

    def __str__(self) -> str:
        """In words, and as trials are written."""
        asked = f", asked {self.ahead} ahead" if self.limits or self.ahead else ""
        return f"{'rolled out, ' if self.limits else ''}horizon {self.horizon}{asked}"


@dataclass(frozen=True)
class Trial:
    """One attempt at a task by one checkpoint, whoever judged it.

    `source` says who did: an arena's name ("twin"), where `seed` and `level` name the layout, or "operator", with the
    operator's name.
    `times` holds the seconds from the start after which a milestone was first reached, also where it was lost again.
    `weights` and `normalization` are hashes of the policy's weights and of the space it acted in; `video` is a path
    relative to the run's folder; `when` is in Unix time. A trial that is not `valid` (a cable came loose) never counts.
    `protocol` is None where nobody can say: on a robot that was driven by other means, or by hand.
    """

    task: str
    stage: int
    milestones: tuple[str, ...]
    penalties: dict[str, int] = field(default_factory=dict)
    final: bool = True
    source: str = ""
    notes: str = ""
    run: str = ""
    seed: int | None = None
    level: str = ""
    operator: str = ""
    times: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    score: float | None = None
    video: str = ""
    weights: str = ""
    normalization: str = ""
    valid: bool = True
    when: float = 0.0
    protocol: TrialProtocol | None = None


@dataclass(frozen=True)
class Matrix:
    """Scores of one run: `cells[(i, j)]` holds the trial scores of task i after stage j (both from 1).

    A cell that was not measured is absent, never 0. `baseline[i]` is task i trained on its own.
    """

    tasks: tuple[str, ...]
    cells: dict[tuple[int, int], tuple[float, ...]]
    baseline: dict[int, tuple[float, ...]] = field(default_factory=dict)
