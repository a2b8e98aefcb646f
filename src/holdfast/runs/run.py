"""A run as evaluation sees it: which tasks, which finished stages, and what each stage has learned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from holdfast.catalog.reader import build
from holdfast.core.errors import HoldfastError
from holdfast.norm.strategies import Normalization
from holdfast.core.records import Matrix, Task

WEIGHTS = "policy/model.safetensors"


@dataclass(frozen=True)
class FinishedStage:
    """A stage with its checkpoint. `seen` are the tasks it and the stages before it have learned."""

    number: int
    name: str
    checkpoint: Path
    seen: tuple[str, ...]

    @cached_property
    def policy(self) -> str:
        """SHA-256 of the weights, which must be the bytes that training wrote."""
        try:
            expected = json.loads((self.checkpoint / "manifest.json").read_text()).get(WEIGHTS)
            with (self.checkpoint / WEIGHTS).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError) as error:
            raise HoldfastError(f"Checkpoint {self.checkpoint} cannot be read: {error}.") from None
        if found != expected:
            raise HoldfastError(
                f"Checkpoint {self.checkpoint} is damaged: its weights are not the ones that were written. Run the "
                "same `holdfast train` command again to mend it."
            )
        return found

    @cached_property
    def normalization(self) -> Normalization:
        """The spaces of the stage."""
        return Normalization.from_json(json.loads((self.checkpoint / "normalization.json").read_text()))


@dataclass(frozen=True)
class Run:
    """A run's folder, read: how it was trained, its tasks in order, its finished stages."""

    path: Path
    method: str
    tasks: tuple[Task, ...]
    stages: tuple[FinishedStage, ...]
    planned: int  # stages there will be

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names, in the stream's order."""
        return tuple(task.name for task in self.tasks)

    @property
    def trials(self) -> Path:
        """The file of its trials."""
        return self.path / "trials.sqlite"

    def arranged(self, matrix: Matrix) -> Matrix:
        """Scores by stage folder, put where the metrics look for them.

        The one stage of `joint` knows all tasks, as the last stage of a stream does. The stages of `finetune` know one
        task each, alone: they are a baseline.
        """
        if self.method == "joint":
            return Matrix(matrix.tasks, {(i, len(self.tasks)): scores for (i, _), scores in matrix.cells.items()})
        if self.method == "finetune":
            return Matrix(matrix.tasks, {}, {i: scores for (i, j), scores in matrix.cells.items() if i == j})
        return matrix


def read_run(path: Path) -> Run:
    """Read a run's folder; nothing but small files is opened."""
    file = path / "run.yaml"
    if not file.exists():
        raise HoldfastError(f"{path} is no run: it has no run.yaml. Give the folder that `holdfast train` wrote.")
    try:
        content = yaml.safe_load(file.read_text())
        method = str(content["config"]["method"])
        tasks = tuple(read_task(table) for table in content["tasks"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise HoldfastError(f"{file} is not as `holdfast train` writes it: {error!r}.") from None
    stages = tuple(_stages(path, method, tuple(task.name for task in tasks)))
    if not stages:
        raise HoldfastError(f"{path} has no finished stage yet. Run its `holdfast train` command again to go on.")
    return Run(path, method, tasks, stages, 1 if method == "joint" else len(tasks))


def _stages(path: Path, method: str, names: tuple[str, ...]) -> Iterator[FinishedStage]:
    for folder in sorted((path / "stages").glob("[0-9]*-*")):
        number, _, name = folder.name.partition("-")
        position = int(number)
        seen = names if method == "joint" else (name,) if method == "finetune" else names[:position]
        if (folder / "checkpoint" / "manifest.json").exists():
            yield FinishedStage(position, name, folder / "checkpoint", seen)


def read_task(table: dict[str, Any]) -> Task:
    """A task as run.yaml lists it: like a stream's TOML, but with every field and plural names."""
    content = {key: value for key, value in table.items() if value is not None}
    for plural, singular in (("milestones", "milestone"), ("penalties", "penalty")):
        content[singular] = content.pop(plural)
    return build(Task, content, f"task {table['name']!r}")
