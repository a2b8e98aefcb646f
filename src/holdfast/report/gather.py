"""Reads run folders, and nothing else, into one record per run. What is not there yet stays empty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix, Task, Trial
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

# These two have no sequence of stages: all their scores belong to one row, written as that of the last stage.
WITHOUT_STAGES = {"joint": "all at once", "finetune": "each alone"}


@dataclass(frozen=True)
class StageLog:
    """What training left behind of one stage."""

    number: int
    name: str
    lines: tuple[dict[str, Any], ...]  # of metrics.jsonl
    kept: dict[str, tuple[int, int]]  # task -> episodes kept, episodes there were; after the stage


@dataclass(frozen=True)
class RunResults:
    """Everything a report says about one run comes from here."""

    path: Path
    name: str
    method: str
    tasks: tuple[Task, ...]
    config: dict[str, Any]
    matrix: Matrix
    trials: tuple[Trial, ...]  # valid ones, stages as in `matrix`
    heldout: Matrix | None
    audits: tuple[dict[str, Any], ...]
    stages: tuple[StageLog, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names in order."""
        return tuple(task.name for task in self.tasks)

    @property
    def continual(self) -> bool:
        """Whether the tasks were learned one after the other."""
        return self.method not in WITHOUT_STAGES

    @property
    def rows(self) -> tuple[int, ...]:
        """Stages that a matrix of this run shows."""
        size = len(self.tasks)
        return tuple(range(1, size + 1)) if self.continual else (size,)

    def of(self, task: int, stage: int) -> tuple[Trial, ...]:
        """The trials of one cell."""
        return tuple(t for t in self.trials if t.task == self.names[task - 1] and t.stage == stage)


def gather(paths: Sequence[Path]) -> tuple[RunResults, ...]:
    """Read the runs; one that trained every task on its own gives the others their baseline for FWT."""
    runs = [_read(path) for path in paths]
    names = [run.name for run in runs]
    for position, run in enumerate(runs):
        if names.count(run.name) > 1:  # runs of one name, in different folders
            runs[position] = replace(run, name=f"{run.path.resolve().parent.name}/{run.name}")
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise HoldfastError(f"One run was given twice: {', '.join(str(run.path) for run in runs)}. Name each once.")
    alone = next((run for run in runs if run.method == "finetune" and run.matrix.cells), None)
    if alone is None:
        return tuple(runs)
    baseline = {i: scores for (i, _), scores in alone.matrix.cells.items()}
    return tuple(
        replace(run, matrix=replace(run.matrix, baseline=baseline))
        if run.continual and run.names == alone.names
        else run
        for run in runs
    )


def _read(path: Path) -> RunResults:
    folder = read_run(path)
    trials: Sequence[Trial] = ()
    matrix, heldout = Matrix(folder.names, {}), None
    if folder.trials.exists():
        with Trials(folder.trials) as stored:
            matrix, trials = _in_one_row(folder.arranged(stored.matrix(folder.names))), stored.counted()
    if (path / "heldout.json").exists():
        heldout = _in_one_row(folder.arranged(_heldout(path / "heldout.json", list(folder.names))))
    return RunResults(
        path=path,
        name=path.resolve().name,
        method=folder.method,
        tasks=folder.tasks,
        config=yaml.safe_load((path / "run.yaml").read_text())["config"],
        matrix=matrix,
        trials=_in_rows(trials, list(folder.names), folder.method),
        heldout=heldout,
        audits=_audits(path / "audit.jsonl"),
        stages=tuple(_stage(found) for found in sorted((path / "stages").glob("[0-9]*-*"))),
    )


def _in_one_row(matrix: Matrix) -> Matrix:
    """Scores of tasks trained alone, which are nothing but a baseline, as the one row that the report shows of them."""
    if not matrix.baseline:
        return matrix
    return Matrix(matrix.tasks, {(i, len(matrix.tasks)): scores for i, scores in matrix.baseline.items()})


def _in_rows(trials: Sequence[Trial], names: list[str], method: str) -> tuple[Trial, ...]:
    """The trials behind the cells of a run's matrix, with the stage of their row."""
    if method not in WITHOUT_STAGES:
        return tuple(trials)
    own = {name: i if method == "finetune" else 1 for i, name in enumerate(names, 1)}
    return tuple(replace(trial, stage=len(names)) for trial in trials if trial.stage == own[trial.task])


def _heldout(file: Path, names: list[str]) -> Matrix:
    try:
        content = json.loads(file.read_text())
        if content["tasks"] != names:
            raise HoldfastError(f"{file} is about the tasks {content['tasks']}, the run about {names}. Make it again.")
        cells = {(int(k.split(",")[0]), int(k.split(",")[1])): tuple(v) for k, v in content["cells"].items()}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise HoldfastError(f"{file} cannot be read ({error}). Delete it and evaluate again.") from None
    return Matrix(tuple(names), cells)


def _audits(file: Path) -> tuple[dict[str, Any], ...]:
    """The last audit of every task in every stage: a stage that was started again is audited again."""
    found = {(line["stage"], line["task"]): line for line in _lines(file) if line.get("event") == "audit"}
    return tuple(found[key] for key in sorted(found, key=lambda key: int(key[0])))


def _stage(folder: Path) -> StageLog:
    number, _, name = folder.name.partition("-")
    buffer = folder / "checkpoint" / "buffer.json"
    tasks = json.loads(buffer.read_text())["tasks"] if buffer.exists() else []
    kept = {entry["task"]: (len(entry["episodes"]), int(entry["total"])) for entry in tasks}
    return StageLog(int(number), name, tuple(_lines(folder / "metrics.jsonl")), kept)


def _lines(file: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; a run that is being written may end in half a line."""
    lines: list[dict[str, Any]] = []
    for text in file.read_text().splitlines() if file.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines
