"""Reads run folders into one record per run. What is not there yet stays empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix, Task, Trial
from holdfast.methods.method import Arrangement
from holdfast.runs.heldout import read_scores
from holdfast.runs.paths import StagePaths
from holdfast.runs.run import read_run, started_stages
from holdfast.runs.run_log import RANGE_CHECK, read_lines
from holdfast.runs.sources import by_source, choose_source, matrix_of
from holdfast.runs.trials import Trials

# Arrangements without a sequence of stages: all scores belong to one row, written as that of the last stage.
WITHOUT_STAGES: dict[Arrangement, str] = {"together": "all at once", "alone": "each alone"}


@dataclass(frozen=True)
class StageLog:
    """What training logged in one stage."""

    number: int
    name: str
    lines: tuple[dict[str, Any], ...]  # of metrics.jsonl
    kept: dict[str, tuple[int, int]]  # task -> episodes kept after the stage, episodes in total
    weights_bytes: int = 0  # of the policy and what the method keeps beside it; 0 if not known


@dataclass(frozen=True)
class RunResults:
    """All data of one run that the report uses, with the trials of one source."""

    path: Path
    name: str
    method: str
    arrangement: Arrangement  # how its stages map to rows of its matrix
    tasks: tuple[Task, ...]
    config: dict[str, Any]
    matrix: Matrix
    trials: tuple[Trial, ...]  # valid ones, stages as in `matrix`
    heldout: Matrix | None
    range_checks: tuple[dict[str, Any], ...]
    stages: tuple[StageLog, ...]
    source: str = ""  # of its trials; empty where there are none yet

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names in order."""
        return tuple(task.name for task in self.tasks)

    @property
    def learned(self) -> tuple[str, ...]:
        """The task of every row of the matrix; a task that comes back is there again."""
        return tuple(self.names[i - 1] for i in self.matrix.learned)

    @property
    def continual(self) -> bool:
        """Whether the tasks were learned in sequence."""
        return self.arrangement not in WITHOUT_STAGES

    @property
    def rows(self) -> tuple[int, ...]:
        """Stages shown as rows of this run's matrix."""
        size = len(self.tasks)
        return tuple(range(1, len(self.matrix.learned) + 1)) if self.continual else (size,)

    def of(self, task: int, stage: int) -> tuple[Trial, ...]:
        """The trials of one cell."""
        return tuple(t for t in self.trials if t.task == self.names[task - 1] and t.stage == stage)


def gather(paths: Sequence[Path], source: str | None = None) -> tuple[RunResults, ...]:
    """Read the runs, with the baselines that they are to each other, for FWT.

    A run that several sources have judged comes once for each of them, unless one is asked for.
    """
    found = [read_results(path) for path in paths]
    if len({path.resolve() for path in paths}) < len(paths):
        raise HoldfastError(f"A run was given twice: {', '.join(map(str, paths))}. Name each once.")
    names = [first.name for first, *_ in found]
    runs = []
    for results in found:
        for run in results:
            twice = names.count(run.name) > 1  # runs of the same name in different folders
            runs.append(replace(run, name=f"{run.path.resolve().parent.name}/{run.name}") if twice else run)
    return with_baselines(_chosen(runs, source))


def _chosen(runs: Sequence[RunResults], source: str | None) -> list[RunResults]:
    """The results of one source, or of all. A run without trials stands beside those of the first source."""
    sources = list(dict.fromkeys(run.source for run in runs if run.source))
    if source is None:
        return [run if run.source else replace(run, source=next(iter(sources), "")) for run in runs]
    chosen: dict[Path, RunResults] = {}
    choose_source(sources, source, ", ".join(dict.fromkeys(str(run.path) for run in runs)))
    for run in runs:
        if run.source == source:
            chosen[run.path] = run
        else:
            chosen.setdefault(run.path, replace(run, source=source, trials=(), matrix=replace(run.matrix, cells={})))
    return list(chosen.values())


def with_baselines(runs: Sequence[RunResults]) -> tuple[RunResults, ...]:
    """The same runs; the tasks that one of them trained alone are the baseline of those that learned in sequence.

    Scores are compared with those of the same source only.
    """
    alone = {  # by task, because a stream's tasks may have been trained alone in several runs
        (run.source, run.names[i - 1]): scores
        for run in reversed(runs)
        if run.arrangement == "alone"
        for (i, _), scores in run.matrix.cells.items()
    }
    return tuple(_with_baseline(run, alone) for run in runs)


def _with_baseline(run: RunResults, alone: dict[tuple[str, str], tuple[float, ...]]) -> RunResults:
    if not run.continual:
        return run
    keys = {i: (run.source, name) for i, name in enumerate(run.names, 1)}
    baseline = {i: alone[key] for i, key in keys.items() if key in alone}
    return replace(run, matrix=replace(run.matrix, baseline=baseline))


def read_results(path: Path) -> list[RunResults]:
    """Read one run: its results by every source of its trials, without a baseline from other runs."""
    run = read_run(path)
    trials: list[Trial] = []
    if run.trials.exists():
        with Trials(run.trials) as stored:
            trials = stored.counted()
    heldout = None
    if run.paths.heldout.exists():
        heldout = _in_one_row(run.arranged(read_scores(run.paths.heldout, run.names)))
    results = RunResults(
        path=path,
        name=run.name,
        method=run.method,
        tasks=run.tasks,
        config=run.config,
        matrix=_in_one_row(run.arranged(Matrix(run.names, {}))),
        trials=(),
        heldout=heldout,
        range_checks=_range_checks(run.paths.log),
        stages=tuple(map(_stage, started_stages(run.paths))),
        arrangement=run.arrangement,
    )
    judged = [
        replace(
            results,
            source=source,
            matrix=_in_one_row(run.arranged(matrix_of(run.names, found))),
            trials=_in_rows(found, run.names, run.arrangement),
        )
        for source, found in by_source(trials).items()
    ]
    return judged or [results]


def _in_one_row(matrix: Matrix) -> Matrix:
    """A matrix that is only a baseline (every task trained alone) as the single row that the report shows."""
    if not matrix.baseline:
        return matrix
    return Matrix(matrix.tasks, {(i, len(matrix.tasks)): scores for i, scores in matrix.baseline.items()})


def _in_rows(trials: Sequence[Trial], names: Sequence[str], arrangement: Arrangement) -> tuple[Trial, ...]:
    """The trials behind the cells of a run's matrix, with the stage of their row."""
    if arrangement not in WITHOUT_STAGES:
        return tuple(trials)
    own = {name: i if arrangement == "alone" else 1 for i, name in enumerate(names, 1)}
    return tuple(replace(trial, stage=len(names)) for trial in trials if trial.stage == own[trial.task])


def _range_checks(log: Path) -> tuple[dict[str, Any], ...]:
    """The last range check of every task in every stage; a restarted stage is checked again."""
    found = {(line["stage"], line["task"]): line for line in read_lines(log) if _is_range_check(line)}
    return tuple(found[key] for key in sorted(found, key=lambda key: int(key[0])))


def _is_range_check(line: dict[str, Any]) -> bool:
    match line:
        case {"event": event, "stage": int(), "task": str(), "rows": [_, *_] as rows} if event == RANGE_CHECK:
            return all(map(_is_row, rows))
    return False


def _is_row(row: Any) -> bool:
    match row:
        case {"name": str(), "largest": int() | float(), "outside": int() | float(), "widened": bool()}:
            return True
    return False


def _stage(files: StagePaths) -> StageLog:
    kept = files.checkpoint.buffer.tasks if files.checkpoint.buffer_file.exists() else ()
    counts = {task.task: (len(task.episodes), task.total) for task in kept}
    lines = tuple(line for line in read_lines(files.metrics) if is_progress(line))
    return StageLog(files.number, files.name, lines, counts, files.checkpoint.weights_bytes)


def is_progress(line: dict[str, Any]) -> bool:
    """Whether the values of a metrics line that the report uses are what they should be."""
    tables = [line.get(name, {}) for name in ("samples", "loss_by_task", "loss_by_arm")]
    numbers = [line.get(name, 0) for name in ("steps", "replay_steps")]
    step = line.get("step")
    return (
        isinstance(step, int)
        and step > 0
        and all(isinstance(table, dict) for table in tables)
        and all(isinstance(n, int | float) for n in (*numbers, *(n for table in tables for n in table.values())))
    )
