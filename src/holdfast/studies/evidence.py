"""The evidence of a study: what its report needs of every run, as plain values without weights, pixels and paths.

The report of a study is always made of its evidence, so it is the same from the study's folder and from files that were
packed on several machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.core.names import without_folders
from holdfast.core.records import Matrix, Task, Trial
from holdfast.methods.method import Arrangement
from holdfast.norm.range_check import DimensionRange
from holdfast.report.gather import RunResults, StageLog, read_results
from holdfast.runs.run import read_run, started_stages
from holdfast.runs.sources import by_source, matrix_of
from holdfast.studies.history import seconds_taken
from holdfast.studies.jobs import StudyFolder
from holdfast.studies.study import Study, study_from_json

MOST_LINES = 100  # of a stage's losses
_ADDED = ("steps", "replay_steps", "replay_samples", "samples")
_AVERAGED = ("loss", "extra_loss", "loss_by_task", "loss_by_arm")
TIMED = ("train", "evaluate")  # kinds of jobs
LINE = ("step", *_ADDED, *_AVERAGED)  # what is taken of metrics.jsonl


@dataclass(frozen=True)
class StageEvidence:
    """What a stage has shown. `weights` is their SHA-256 once it is finished; `lines` are of metrics.jsonl."""

    number: int
    name: str
    weights: str
    lines: tuple[dict[str, Any], ...]
    kept: dict[str, tuple[int, int]]  # task -> episodes kept after the stage, episodes in total
    weights_bytes: int = 0  # of the policy and what the method keeps beside it; 0 if not known


@dataclass(frozen=True)
class RangeEvidence:
    """The range check of one task before a stage."""

    stage: int
    task: str
    space: str
    rows: tuple[DimensionRange, ...]


@dataclass(frozen=True)
class RunEvidence:
    """What a run has shown, in an order that does not depend on when and where its parts were made.

    `trials` are those that count, and their stages, like the cells "task,stage" of `heldout`, are rows of the matrix.
    """

    config: dict[str, Any]  # of run.yaml
    tasks: tuple[Task, ...]
    arrangement: Arrangement
    stages: tuple[StageEvidence, ...]
    range_checks: tuple[RangeEvidence, ...]
    heldout: dict[str, tuple[float, ...]] | None
    trials: tuple[Trial, ...]
    visits: tuple[int, ...] = ()  # the task of every row, from 1, where tasks come back
    seconds: dict[str, float] = field(default_factory=dict)  # of its jobs that were done in one go; see TIMED

    def __post_init__(self) -> None:
        place = {name: number for number, name in enumerate(self.names)}
        stages = sorted(self.stages, key=lambda stage: stage.number)
        checks = sorted(self.range_checks, key=lambda check: (check.stage, place.get(check.task, -1)))
        trials = sorted(self.trials, key=lambda trial: (place.get(trial.task, -1), *identity(trial)[1:]))
        for name, values in (("stages", stages), ("range_checks", checks), ("trials", trials)):
            object.__setattr__(self, name, tuple(values))

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names in order."""
        return tuple(task.name for task in self.tasks)


@dataclass(frozen=True)
class Evidence:
    """A study and what its runs have shown, by their names."""

    study: Study
    runs: dict[str, RunEvidence]


def identity(trial: Trial) -> tuple[Any, ...]:
    """What makes two trials the same one: cell, judge, layout and weights; without a layout, operator and time."""
    layout = (0, trial.seed, "", 0.0) if trial.seed is not None else (1, 0, trial.operator, trial.when)
    return (trial.task, trial.stage, trial.source, *layout, trial.weights)


def check_groups(evidence: Evidence) -> None:
    """Refuse runs that should differ only in their seed, but learn different tasks: their stream's file has changed."""
    first: dict[str, str] = {}
    for run in evidence.study.runs():
        if run.name in evidence.runs:
            known = first.setdefault(run.label, run.name)
            one, other = evidence.runs[known], evidence.runs[run.name]
            if (one.names, one.visits) != (other.names, other.visits):
                learned = " and ".join(", ".join(found.names) for found in (one, other))
                raise HoldfastError(
                    f"Runs {known} and {run.name} should differ only in their seed, but learn different tasks: "
                    f"{learned}. Was the stream's file changed in between? Leave one of them out."
                )


def gather_evidence(study: Study, folder: StudyFolder) -> Evidence:
    """Read the evidence from a study's folder. Runs without a finished stage are left out."""
    runs, seconds = {}, seconds_taken(folder.history)
    for run in study.runs():
        paths = folder.run(run)
        if paths.trials.exists() or any(stage.checkpoint.exists for stage in started_stages(paths)):
            own = {kind: seconds[f"{kind}-{run.name}"] for kind in TIMED if f"{kind}-{run.name}" in seconds}
            runs[run.name] = replace(_of_run(read_results(paths.root)), seconds=own)
    return Evidence(study_from_json(without_folders(to_json(study)), f"Study {study.name}"), runs)


def _of_run(results: Sequence[RunResults]) -> RunEvidence:
    """The evidence of a run, with the trials of all its sources."""
    run = results[0]
    weights = {stage.number: stage.checkpoint.recorded_weights_hash for stage in read_run(run.path).stages}
    cells = sorted(run.heldout.cells.items()) if run.heldout else []
    return RunEvidence(
        config=without_folders(run.config),
        tasks=run.tasks,
        arrangement=run.arrangement,
        stages=tuple(_of_stage(stage, weights.get(stage.number, "")) for stage in run.stages),
        range_checks=tuple(_of_range_check(check, str(run.path)) for check in run.range_checks),
        heldout={f"{i},{j}": tuple(map(float, scores)) for (i, j), scores in cells} if run.heldout else None,
        trials=tuple(replace(t, run="") for one in results for t in one.trials if t.score is not None),
        visits=run.matrix.visits,
    )


def _of_range_check(check: dict[str, Any], what: str) -> RangeEvidence:
    rows = tuple(from_json(DimensionRange, row, f"{what}: a range check") for row in check["rows"])
    return RangeEvidence(check["stage"], check["task"], str(check.get("space", "")), rows)


def _of_stage(stage: StageLog, weights: str) -> StageEvidence:
    lines = [{key: line[key] for key in LINE if key in line} for line in stage.lines]
    return StageEvidence(stage.number, stage.name, weights, thinned(lines), stage.kept, stage.weights_bytes)


def thinned(lines: Sequence[dict[str, Any]], most: int = MOST_LINES) -> tuple[dict[str, Any], ...]:
    """At most so many lines: if there are more, every n neighbours become one, with the smallest n that suffices."""
    size = -(-len(lines) // most)
    if size <= 1:
        return tuple(lines)
    return tuple(_joined(lines[start : start + size]) for start in range(0, len(lines), size))


def _joined(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Neighbouring lines as one: counts are added, losses averaged over the steps, the step is that of the last."""
    steps = [line.get("steps") or 1 for line in lines]
    joined: dict[str, Any] = {"step": lines[-1]["step"]}
    for key in (*_ADDED, *_AVERAGED):
        found = [(line[key], weight) for line, weight in zip(lines, steps, strict=True) if key in line]
        combine = _sum if key in _ADDED else _mean
        if found and isinstance(found[0][0], dict):
            names = dict.fromkeys(name for table, _ in found for name in table)
            joined[key] = {n: combine([(table[n], weight) for table, weight in found if n in table]) for n in names}
        elif found:
            joined[key] = combine(found)
    return joined


def _sum(found: Sequence[tuple[float, float]]) -> float:
    return sum(value for value, _ in found)


def _mean(found: Sequence[tuple[float, float]]) -> float:
    return sum(value * weight for value, weight in found) / sum(weight for _, weight in found)


def results_of(name: str, path: Path, run: RunEvidence, source: str) -> RunResults:
    """A run's results by one source, as the report reads them; `path` says where they come from."""
    names, heldout = run.names, None
    trials = by_source(run.trials).get(source, [])
    if run.heldout is not None:
        cells = {cell_of(key): scores for key, scores in run.heldout.items()}
        heldout = Matrix(names, cells, visits=run.visits)
    return RunResults(
        path=path,
        name=name,
        method=str(run.config["method"]),
        tasks=run.tasks,
        config=run.config,
        matrix=replace(matrix_of(names, trials), visits=run.visits),
        trials=tuple(trials),
        heldout=heldout,
        range_checks=tuple(to_json(check) for check in run.range_checks),
        stages=tuple(StageLog(s.number, s.name, s.lines, s.kept, s.weights_bytes) for s in run.stages),
        arrangement=run.arrangement,
        source=source,
    )


def cell_of(key: str) -> tuple[int, int]:
    """Task and stage of a cell's key, both from 1."""
    task, _, stage = key.partition(",")
    return int(task), int(stage)
