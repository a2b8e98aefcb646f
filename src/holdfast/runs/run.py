"""A run read from its folder: its tasks, its finished stages, and what each stage has learned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix, Task
from holdfast.embodiments.embodiment import Embodiment
from holdfast.methods import METHODS
from holdfast.methods.method import Arrangement, learned_visits
from holdfast.runs.checkpoint import Checkpoint
from holdfast.runs.embodiment import find_embodiment
from holdfast.runs.own_files import arrangement_of
from holdfast.runs.paths import RunPaths, StagePaths
from holdfast.runs.settings import read_settings, read_task

_STAGE = re.compile(r"[0-9]{2,9}-.+", re.DOTALL)


@dataclass(frozen=True)
class FinishedStage:
    """A stage with its checkpoint. `seen` are the tasks it and the stages before it have learned."""

    number: int
    name: str
    checkpoint: Checkpoint
    seen: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Name of the stage's folder in the run."""
        return f"{self.number:02d}-{self.name}"


@dataclass(frozen=True)
class Run:
    """A run: how it was trained, its tasks in order of their first visits, its finished stages."""

    path: Path
    method: str
    tasks: tuple[Task, ...]
    stages: tuple[FinishedStage, ...]
    planned: int  # number of stages when it is complete
    seed: int = 0
    config: dict[str, Any] = field(default_factory=dict)  # the settings of run.yaml
    visits: tuple[str, ...] = ()  # the task of every stage, where tasks come back

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    @property
    def paths(self) -> RunPaths:
        """The paths of its files."""
        return RunPaths(self.path)

    @property
    def robot(self) -> Embodiment | None:
        """The robot that it was trained for; None where the stream names none, or an earlier version stored none."""
        return find_embodiment(self.paths.embodiment, lambda: None)

    @property
    def arrangement(self) -> Arrangement:
        """How its stages map to its matrix."""
        return arrangement_of(self.paths, self.method)

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names, in the stream's order."""
        return tuple(task.name for task in self.tasks)

    @property
    def trials(self) -> Path:
        """The file of its trials."""
        return self.paths.trials

    def arranged(self, matrix: Matrix) -> Matrix:
        """Move scores by stage folder to where the metrics read them.

        The single stage of joint training counts as the last stage of a stream, because it has seen all tasks. Stages
        that learn one task each, on its own, are a baseline.
        """
        if self.arrangement == "together":
            return Matrix(matrix.tasks, {(i, len(self.tasks)): scores for (i, _), scores in matrix.cells.items()})
        if self.arrangement == "alone":
            return Matrix(matrix.tasks, {}, {i: scores for (i, j), scores in matrix.cells.items() if i == j})
        return replace(matrix, visits=tuple(self.names.index(name) + 1 for name in self.visits))


def read_run(path: Path) -> Run:
    """Read a run's folder; only small files are opened."""
    begun = _begun(RunPaths(path))
    stages = tuple(_finished(begun))
    if not stages:
        raise HoldfastError(f"{path} has no finished stage yet. Run its `holdfast train` command again to continue.")
    tasks = tuple({task.name: task for task in begun.tasks}.values())
    planned = len(learned_visits(begun.arrangement, begun.visits))
    back = begun.visits if len(tasks) < len(begun.visits) else ()
    return Run(path, begun.method, tasks, stages, planned, begun.seed, begun.config, back)


def run_of(checkpoint: Path) -> Run | None:
    """The run of a stage's checkpoint; None for any other folder."""
    folder = checkpoint.absolute()
    root = folder.parent.parent.parent
    return read_run(root) if folder.name == "checkpoint" and RunPaths(root).settings.exists() else None


def read_baseline(path: Path) -> Run:
    """Read a run that learned every task on its own, and has trials: what forward transfer compares with."""
    run = read_run(path)
    if run.arrangement != "alone":
        raise HoldfastError(
            f"The baseline {path} was trained with --method={run.method}, which does not learn every task on its own. "
            "Give a run of --method=finetune."
        )
    if not run.trials.exists():
        raise HoldfastError(f"The baseline {path} was not evaluated yet. Run: holdfast evaluate {path}")
    return run


def started_stages(paths: RunPaths) -> list[StagePaths]:
    """The stages that a run has started, in order; none where no run has begun.

    Other folders beside them are copies and notes of the user's: they have another number or name.
    """
    return _begun(paths).stages if paths.settings.exists() else []


def has_finished_stage(path: Path) -> bool:
    """Whether a folder is a run that `read_run` can read."""
    return any(stage.checkpoint.exists for stage in started_stages(RunPaths(path)))


@dataclass(frozen=True)
class _Begun:
    """A run that has settings: what they say, and the tasks of all visits."""

    paths: RunPaths
    method: str
    seed: int
    config: dict[str, Any]
    tasks: tuple[Task, ...]
    arrangement: Arrangement

    @property
    def visits(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    @property
    def stages(self) -> list[StagePaths]:
        """The stages started so far. A method of the user's own may name them as it likes."""
        folders = [folder for folder in self.paths.stages.glob("*") if _STAGE.fullmatch(folder.name)]
        if self.method in METHODS:
            learned = learned_visits(self.arrangement, self.visits)
            together = self.arrangement == "together"
            names = [self.method if together else self.visits[position] for position, *_ in learned]
            planned = {f"{number:02d}-{name}" for number, name in enumerate(names, 1)}
            folders = [folder for folder in folders if folder.name in planned]
        found = sorted(map(StagePaths, folders), key=lambda stage: (stage.number, stage.name))
        for one, other in pairwise(found):
            if one.number == other.number:
                raise HoldfastError(
                    f"{self.paths.stages} has two folders of stage {one.number}: {one.folder.name} and "
                    f"{other.folder.name}. Move the one that is a copy out of it."
                )
        return found


def _begun(paths: RunPaths) -> _Begun:
    settings = read_settings(paths.settings)
    try:
        method, seed = settings.method, settings.seed
        tasks = tuple(read_task(table) for table in settings.tasks)
    except HoldfastError as error:
        raise HoldfastError(f"{paths.settings} is not as `holdfast train` writes it: {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise HoldfastError(f"{paths.settings} is not as `holdfast train` writes it: {error!r}.") from None
    return _Begun(paths, method, seed, settings.config, tasks, arrangement_of(paths, method))


def _finished(begun: _Begun) -> Iterator[FinishedStage]:
    names = begun.visits
    for stage in begun.stages:
        seen = {"stream": names[: stage.number], "together": names, "alone": (stage.name,)}[begun.arrangement]
        if stage.checkpoint.exists:
            yield FinishedStage(stage.number, stage.name, stage.checkpoint, tuple(dict.fromkeys(seen)))
