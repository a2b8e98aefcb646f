"""Frozen records shared between modules. They hold and check values, nothing more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from holdfast.core.errors import HoldfastError, unknown


@dataclass(frozen=True)
class Milestone:
    """One point of a rubric; an arena awards it only when every milestone named in `needs` was reached too."""

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
            raise HoldfastError(f"Task {self.name!r} has two milestones with the same name: {names}.")
        for position, milestone in enumerate(self.milestones):
            late = [n for n in milestone.needs if n not in names[:position]]
            if late:
                raise HoldfastError(
                    f"Milestone {milestone.name!r} of task {self.name!r} needs {late}, not earlier milestones."
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
    """How a dataset maps to the run's schema where they differ; set by the user, never guessed.

    `cameras` maps every camera of the run to one of the dataset, or to `black 480x640` if the dataset lacks it.
    `dimensions` lists the dataset's dimensions in the run's order. `fps` is the run's frame rate; the dataset's must be
    a whole multiple of it, and the frames in between are dropped.
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
        """The mapping as readable text."""
        parts = [f"{name} is {key if black(key) else repr(key)}" for name, key in self.cameras.items()]
        parts += [f"dimensions in the order {', '.join(self.dimensions)}"] if self.dimensions else []
        parts += [f"{self.fps:g} frames per second"] if self.fps else []
        return "; ".join(parts)


def black(key: str) -> tuple[int, int] | None:
    """Height and width of a missing camera, written `black 480x640`; None for the name of a real one."""
    found = re.fullmatch(r"black (\d+)x(\d+)", key)
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class StreamTask:
    """A task of a stream, its dataset (a folder or a hub id), and how the dataset is mapped."""

    task: Task
    dataset: str
    mapping: Mapping | None = None


@dataclass(frozen=True)
class Stream:
    """An ordered list of tasks with their datasets, on one embodiment. A task may come back, with the same dataset."""

    name: str
    tasks: tuple[StreamTask, ...]
    embodiment: str | None = None

    def __post_init__(self) -> None:
        if not self.tasks:
            raise HoldfastError(f"Stream {self.name!r} lists no task.")
        first: dict[str, StreamTask] = {}
        for entry in self.tasks:
            if first.setdefault(entry.task.name, entry) != entry:
                raise HoldfastError(
                    f"Stream {self.name!r} lists {entry.task.name!r} twice, with another definition, dataset or "
                    "mapping. Name a task that comes back again, without anything else; another one needs its own name."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names in order; a task that comes back is there again."""
        return tuple(entry.task.name for entry in self.tasks)

    @property
    def distinct(self) -> tuple[StreamTask, ...]:
        """Every task once, in the order of first visits."""
        return tuple({entry.task.name: entry for entry in self.tasks}.values())

    def only(self, tasks: Sequence[str]) -> Stream:
        """Only the named tasks, in the order they are named; all if none is named."""
        entries = {entry.task.name: entry for entry in self.tasks}
        for name in tasks:
            if name not in entries:
                raise unknown(f"task of stream {self.name!r}", name, self.names)
        return replace(self, tasks=tuple(entries[name] for name in tasks)) if tasks else self


@dataclass(frozen=True)
class Stage:
    """One stage of training: what it learns, for how long, from which weights, with how much replay."""

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
    """What an episode has reached, according to its judge; the rubric turns it into a score.

    `final` says whether the task's final condition holds. For a task without milestones it is plain success.
    """

    milestones: tuple[str, ...] = ()
    penalties: dict[str, int] = field(default_factory=dict)
    final: bool = False


@dataclass(frozen=True)
class TrialProtocol:
    """How a trial was run. Trials of one cell must have the same protocol, otherwise their mean is meaningless.

    `horizon` steps of every chunk are executed, the next chunk is requested `ahead` steps before they run out, and with
    `limits` every command passes the robot's limits first.
    """

    horizon: int
    ahead: int = 0
    limits: bool = False

    def __str__(self) -> str:
        """The protocol as readable text, which is also how trials store it."""
        asked = f", asked {self.ahead} ahead" if self.limits or self.ahead else ""
        return f"{'rolled out, ' if self.limits else ''}horizon {self.horizon}{asked}"

    @classmethod
    def parse(cls, text: str) -> TrialProtocol | None:
        """Inverse of `str`; None for any other text."""
        found = re.fullmatch(r"(rolled out, )?horizon ([0-9]{1,9})(?:, asked ([0-9]{1,9}) ahead)?", text)
        protocol = cls(int(found[2]), int(found[3] or 0), bool(found[1])) if found else None
        return protocol if str(protocol) == text else None


OPERATOR = "operator"  # the source of trials that people judge


@dataclass(frozen=True)
class Trial:
    """One attempt at a task by one checkpoint, judged by an arena or an operator.

    `source` is the judge: an arena's name ("twin"), with the layout in `seed` and `level`, or "operator", with the name
    in `operator`. Trials of different sources are never in one cell.
    `times` holds when each milestone was first reached, in seconds from the start, even if it was lost again.
    `weights` and `normalization` are hashes of the policy's weights and of the space it acted in; `video` is a path
    relative to the run's folder; `when` is in Unix time. An invalid trial (a cable came loose) never counts.
    `protocol` is None where it is unknown: the robot was driven by other software or by hand.
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
    """Scores of one run by one source: `cells[(i, j)]` holds the trial scores of task i after stage j (both from 1).

    A cell that was not measured is absent, never 0. `baseline[i]` is task i trained on its own. `visits` has the task
    that each stage learned where tasks come back; where it is empty, stage j learned task j.
    """

    tasks: tuple[str, ...]
    cells: dict[tuple[int, int], tuple[float, ...]]
    baseline: dict[int, tuple[float, ...]] = field(default_factory=dict)
    visits: tuple[int, ...] = ()

    @property
    def learned(self) -> tuple[int, ...]:
        """The task that each stage learned, from 1."""
        return self.visits or tuple(range(1, len(self.tasks) + 1))
