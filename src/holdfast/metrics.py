"""Average score, backward and forward transfer of a matrix of scores, with bootstrap intervals.

With c(i, j) the mean score of task i after stage j, and b(i) that of task i trained on its own:

    AS_k  = mean over i <= k of c(i, k)
    BWT_k = mean over j < k of c(j, k) - c(j, j)             negative: forgetting
    FWT_k = mean over 2 <= j <= k of c(j, j) - b(j)          positive: earlier tasks help new ones

A task that comes back counts once: AS_k is over all tasks so far, BWT_k compares with a task's last visit and leaves
out the task that stage k learns, FWT_k has first visits only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.outside import parse_csv
from holdfast.core.records import Matrix

_ALONE = 0  # as a stage: the task trained on its own, for the baseline
_PERCENTILES = (2.5, 97.5)
_PICKS = 2**22  # resampled scores in memory at a time
_MOST_TASKS = 2000
_MOST_NAMED = 100  # missing scores of one figure
_MOST_TRIALS = 200_000  # resampling takes about 15 us a trial
_LARGEST = 1e15  # of a score; sums of larger ones could overflow

type _Key = tuple[int, int]  # task i, stage j (or _ALONE)
type _Stages = int | np.ndarray  # one for all tasks, or one for each


@dataclass(frozen=True)
class Figure:
    """One metric at one stage: its value, its 95 % interval over trials, and the missing scores as text.

    `value` is None where the metric is undefined (nothing missing) or cannot be computed (something missing).
    `low` and `high` are None unless every score it uses was measured in at least two trials.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageMetrics:
    """The three metrics after one stage."""

    stage: int
    average_score: Figure
    bwt: Figure
    fwt: Figure


def summarize(matrix: Matrix, draws: int = 2000, seed: int = 0) -> list[StageMetrics]:
    """The metrics after every stage; stages not measured have no value.

    Args:
        matrix: The scores; cells of tasks not yet trained (i > j) are allowed and ignored.
        draws: Bootstrap resamples per interval.
        seed: Of the resamples. Those of a cell depend on it and the cell only, so later stages change no interval.
    """
    check(matrix)
    scores = _Scores(matrix, draws, seed)
    found, first, last = [], dict[int, int](), dict[int, int]()  # task -> stage
    for k, task in enumerate(matrix.learned, 1):
        first.setdefault(task, k)
        last[task] = k
        tasks = np.array(list(first))
        old, new = tasks[tasks != task], tasks[1:]
        bwt = scores.figure(old, k, minus=np.array([last[i] for i in old.tolist()]))
        fwt = scores.figure(new, np.array([first[i] for i in new.tolist()]), minus=_ALONE)
        found.append(StageMetrics(k, scores.figure(tasks, k), bwt, fwt))
    return found


def mean_of_means(groups: Sequence[Sequence[float]], draws: int = 2000, seed: int = 0) -> Figure:
    """The mean over groups of each group's own mean, with its 95 % interval when every group has two values or more."""
    if not groups or not all(groups):
        return Figure(None)
    value = float(np.mean([np.mean(group) for group in groups]))
    if any(len(group) < 2 for group in groups):
        return Figure(value)
    samples = [_resampled_means(group, draws, np.random.default_rng((seed, g))) for g, group in enumerate(groups)]
    low, high = np.percentile(np.mean(samples, axis=0), _PERCENTILES)
    return Figure(value, float(low), float(high))


@dataclass(frozen=True)
class Agreement:
    """How far two raters agree: the share of equal answers, and Cohen's kappa, or why it is undefined."""

    count: int
    observed: float | None
    kappa: float | None
    why: str = ""


def cohens_kappa(answers: Sequence[tuple[bool, bool]]) -> Agreement:
    """Agreement of two raters on yes-or-no questions, beyond chance.

    With p the share of equal answers and e the share expected if each answered at random with the same rate of yes:
    kappa = (p - e) / (1 - e). If both always gave the same answer, e is 1 and kappa is undefined.
    """
    if not answers:
        return Agreement(0, None, None, "nothing was rated by both")
    size = len(answers)
    same = sum(a == b for a, b in answers)
    one, other = sum(a for a, _ in answers), sum(b for _, b in answers)
    expected = one * other + (size - one) * (size - other)  # times size squared, in whole numbers
    if expected == size**2:
        return Agreement(size, 1.0, None, f"both always said {'yes' if one else 'no'}")
    return Agreement(size, same / size, (same * size - expected) / (size**2 - expected))


class _Scores:
    """Means and resampled means of the cells, each resampled once so that terms sharing a cell stay paired.

    scipy.stats.bootstrap resamples for every figure: it takes five times as long, and later stages change intervals.
    """

    def __init__(self, matrix: Matrix, draws: int, seed: int) -> None:
        self.tasks, self.draws, self.seed = matrix.tasks, draws, seed
        self.trials = {**matrix.cells, **{(i, _ALONE): scores for i, scores in matrix.baseline.items()}}
        shape = (len(self.tasks) + 1, len(matrix.learned) + 1)
        self.means, self.counts = np.full(shape, np.nan), np.zeros(shape, int)
        for key, scores in self.trials.items():
            self.counts[key] = len(scores)
            if scores:
                self.means[key] = scores[0] if len(scores) == 1 else np.mean(scores)
        # A stage uses three cells of every task at most, two of which later stages use too.
        self.resampled = lru_cache(4 * len(self.tasks))(self._resampled)

    def _resampled(self, key: _Key) -> np.ndarray:
        return _resampled_means(self.trials[key], self.draws, np.random.default_rng((self.seed, *key)))

    def figure(self, tasks: np.ndarray, stages: _Stages, minus: _Stages | None = None) -> Figure:
        """The mean over `tasks` of their scores after `stages`, less those after the stages `minus`."""
        if not len(tasks):
            return Figure(None)
        columns = [np.broadcast_to(stage, tasks.shape) for stage in (stages, minus) if stage is not None]
        terms = [self.means[tasks, column] for column in columns]
        absent = np.isnan(terms)
        if absent.any():
            where = np.argwhere(absent.T).tolist()
            named = [_place(self.tasks, (int(tasks[t]), int(columns[c][t]))) for t, c in where[:_MOST_NAMED]]
            more = [f"{len(where) - _MOST_NAMED} more"] if len(where) > _MOST_NAMED else []
            return Figure(None, missing=(*named, *more))
        value = float(np.mean(terms[0] if minus is None else terms[0] - terms[1]))
        if any(self.counts[tasks, column].min() < 2 for column in columns):
            return Figure(value)
        keys = [list(zip(tasks.tolist(), column.tolist(), strict=True)) for column in columns]
        samples = [np.array([self.resampled(key) for key in column]) for column in keys]
        drawn = np.mean(samples[0] if minus is None else samples[0] - samples[1], axis=0)
        low, high = np.percentile(drawn, _PERCENTILES)
        return Figure(value, float(low), float(high))


def _resampled_means(scores: Sequence[float], draws: int, rng: np.random.Generator) -> np.ndarray:
    values, block = np.asarray(scores, dtype=float), max(1, _PICKS // len(scores))
    counts = [min(block, draws - begun) for begun in range(0, draws, block)]  # the same picks as all at once
    return np.concatenate([values[rng.integers(len(scores), size=(n, len(scores)))].mean(axis=1) for n in counts])


def _place(tasks: Sequence[str], key: _Key) -> str:
    i, j = key
    return f"baseline of {tasks[i - 1]}" if j == _ALONE else f"{tasks[i - 1]} after stage {j}"


def check(matrix: Matrix) -> None:
    """Refuse cells outside the tasks and scores that are not finite; scores may have any scale up to 1e15."""
    size, stages = len(matrix.tasks), len(matrix.learned)
    alone = (((i, _ALONE), scores) for i, scores in matrix.baseline.items())
    for (i, j), scores in chain(matrix.cells.items(), alone):
        if not (1 <= i <= size and 0 <= j <= stages) or (j == _ALONE and (i, j) in matrix.cells):
            raise HoldfastError(f"Cell ({i}, {j}) lies outside a matrix of {size} tasks; both count from 1.")
        for score in scores:
            if not -_LARGEST <= score <= _LARGEST:  # written so that NaN is wrong too
                place = _place(matrix.tasks, (i, j))
                raise HoldfastError(f"Score {score} of {place} must be a finite number of at most {_LARGEST:g}.")


def matrix_from_json(obj: object) -> Matrix:
    """Build a matrix from `{"tasks": [...], "cells": [[c11], [c12, c22], ...], "baseline": [...]}`.

    Row j of `cells` lists tasks 1..j (or more) after stage j; each entry is a score, a list of trial scores, or
    null where nothing was measured. Later rows and the baseline may be left out.
    """
    if not isinstance(obj, dict):
        raise HoldfastError(f'A matrix is an object {{"tasks": [...], "cells": [...]}}, got {_kind(obj)}.')
    for key in obj:
        if key not in ("tasks", "cells", "baseline"):
            raise unknown("key in the matrix", key, ("tasks", "cells", "baseline"))
    tasks = _task_names(obj.get("tasks"))
    rows = obj.get("cells")
    if not isinstance(rows, list) or not 1 <= len(rows) <= len(tasks):
        raise HoldfastError(f"'cells' must list 1 to {len(tasks)} rows, one per stage, got {_kind(rows)}.")
    cells: dict[_Key, tuple[float, ...]] = {}
    for j, row in enumerate(rows, 1):
        if not isinstance(row, list) or not j <= len(row) <= len(tasks):
            raise HoldfastError(
                f"Row {j} of 'cells' must list {j} to {len(tasks)} scores, those of tasks 1, 2, ... after stage {j}, "
                f"got {_kind(row)}. Write null for a score that was not measured."
            )
        cells |= {(i, j): scores for i, scores in _measured(row, tasks, j)}
    alone = obj.get("baseline")
    if alone is not None and (not isinstance(alone, list) or len(alone) != len(tasks)):
        raise HoldfastError(f"'baseline' must list {len(tasks)} scores or nulls, one per task, got {_kind(alone)}.")
    return _checked(Matrix(tasks, cells, dict(_measured(alone or [], tasks, _ALONE))))


def matrix_from_csv(text: str) -> Matrix:
    """Build a matrix from CSV: header `stage,<task>,...`, a row per stage, optionally a row of stage `baseline`.

    An empty field is a score that was not measured.
    """
    rows = [[field.strip() for field in row] for row in parse_csv(text.removeprefix("\ufeff"), "The matrix")]
    rows = [row for row in rows if any(row)]
    if not rows or rows[0][0] != "stage":
        got = repr(",".join(rows[0])) if rows else "an empty file"
        raise HoldfastError(f"A matrix in CSV starts with the line 'stage,<task>,<task>,...', got {got}.")
    tasks = _task_names(rows[0][1:])
    cells: dict[_Key, tuple[float, ...]] = {}
    seen: set[int] = set()
    for stage, *fields in rows[1:]:
        j = _stage_number(stage, len(tasks))
        if j in seen:
            raise HoldfastError(f"Stage {stage!r} has two rows. Keep one.")
        seen.add(j)
        if len(fields) > len(tasks):
            raise HoldfastError(f"The row of stage {stage!r} has {len(fields)} scores for {len(tasks)} tasks.")
        numbers = [_number(field, _place(tasks, (i, j))) for i, field in enumerate(fields, 1)]
        cells |= {(i, j): scores for i, scores in _measured(numbers, tasks, j)}
    if not seen - {_ALONE}:
        raise HoldfastError("The CSV has no row of a stage. Add one per stage: its number, then the tasks' scores.")
    alone = {i: scores for (i, j), scores in cells.items() if j == _ALONE}
    return _checked(Matrix(tasks, {key: s for key, s in cells.items() if key[1] != _ALONE}, alone))


def _checked(matrix: Matrix) -> Matrix:
    """The matrix of a file, if it can be computed in reasonable time."""
    trials = sum(len(s) for s in (*matrix.cells.values(), *matrix.baseline.values()) if len(s) > 1)
    if trials > _MOST_TRIALS:
        raise HoldfastError(f"A matrix has at most {_MOST_TRIALS} trials, got {trials}. Give the mean of each cell.")
    check(matrix)
    return matrix


def _task_names(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n and n.isprintable() for n in names):
        raise HoldfastError(f"A matrix needs the names of its tasks, in the stream's order, got {names!r}.")
    if len(names) > _MOST_TASKS:
        raise HoldfastError(f"A matrix has at most {_MOST_TASKS} tasks, got {len(names)}.")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise HoldfastError(f"A matrix names each task once, got {', '.join(twice)} more than once.")
    return tuple(names)


def _measured(entries: Sequence[Any], tasks: Sequence[str], stage: int) -> Iterator[tuple[int, tuple[float, ...]]]:
    """The measured entries of a row, with their task's number."""
    for i, entry in enumerate(entries, 1):
        trials = [] if entry is None else entry if isinstance(entry, list) else [entry]
        for score in trials:
            if isinstance(score, bool) or not isinstance(score, int | float):
                raise HoldfastError(
                    f"{_place(tasks, (i, stage))} must be a score, a list of trial scores, or null, got {entry!r}."
                )
        if trials:
            yield i, tuple(trials)


def _stage_number(text: str, stages: int) -> int:
    if text == "baseline":
        return _ALONE
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= stages:
        raise HoldfastError(f"A row of the CSV starts with its stage, 1 to {stages}, or 'baseline', got {text!r}.")
    return int(text)


def _number(text: str, place: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise HoldfastError(f"{place} must be a number, or empty where not measured, got {text!r}.") from None


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)
