"""Average score, backward and forward transfer of a matrix of scores, with bootstrap intervals.

With c(i, j) the mean score of task i after stage j, and b(i) that of task i trained on its own:

    AS_k  = mean over i <= k of c(i, k)
    BWT_k = mean over j < k of c(j, k) - c(j, j)             negative: forgetting
    FWT_k = mean over 2 <= j <= k of c(j, j) - b(j)          positive: earlier tasks help new ones

A task that comes back counts once: AS_k is over all tasks so far, BWT_k compares with a task's last visit and leaves
out the task that stage k learns, FWT_k has first visits only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix

ALONE = 0  # as a stage: the task trained on its own, for the baseline
_PERCENTILES = (2.5, 97.5)
_PICKS = 2**22  # resampled scores in memory at a time
_MOST_NAMED = 100  # missing scores of one figure
_LARGEST = 1e15  # of a score; sums of larger ones could overflow

type MatrixKey = tuple[int, int]  # task i, stage j (or ALONE)
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
        fwt = scores.figure(new, np.array([first[i] for i in new.tolist()]), minus=ALONE)
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


class _Scores:
    """Means and resampled means of the cells, each resampled once so that terms sharing a cell stay paired.

    scipy.stats.bootstrap resamples for every figure: it takes five times as long, and later stages change intervals.
    """

    def __init__(self, matrix: Matrix, draws: int, seed: int) -> None:
        self.tasks, self.draws, self.seed = matrix.tasks, draws, seed
        self.trials = {**matrix.cells, **{(i, ALONE): scores for i, scores in matrix.baseline.items()}}
        shape = (len(self.tasks) + 1, len(matrix.learned) + 1)
        self.means, self.counts = np.full(shape, np.nan), np.zeros(shape, int)
        for key, scores in self.trials.items():
            self.counts[key] = len(scores)
            if scores:
                self.means[key] = scores[0] if len(scores) == 1 else np.mean(scores)
        # A stage uses three cells of every task at most, two of which later stages use too.
        self.resampled = lru_cache(4 * len(self.tasks))(self._resampled)

    def _resampled(self, key: MatrixKey) -> np.ndarray:
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
            named = [name_cell(self.tasks, (int(tasks[t]), int(columns[c][t]))) for t, c in where[:_MOST_NAMED]]
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


def name_cell(tasks: Sequence[str], key: MatrixKey) -> str:
    """A cell in words."""
    i, j = key
    return f"baseline of {tasks[i - 1]}" if j == ALONE else f"{tasks[i - 1]} after stage {j}"


def check(matrix: Matrix) -> None:
    """Refuse cells outside the tasks and scores that are not finite; scores may have any scale up to 1e15."""
    size, stages = len(matrix.tasks), len(matrix.learned)
    alone = (((i, ALONE), scores) for i, scores in matrix.baseline.items())
    for (i, j), scores in chain(matrix.cells.items(), alone):
        if not (1 <= i <= size and 0 <= j <= stages) or (j == ALONE and (i, j) in matrix.cells):
            raise HoldfastError(f"Cell ({i}, {j}) lies outside a matrix of {size} tasks; both count from 1.")
        for score in scores:
            if not -_LARGEST <= score <= _LARGEST:  # written so that NaN is wrong too
                place = name_cell(matrix.tasks, (i, j))
                raise HoldfastError(f"Score {score} of {place} must be a finite number of at most {_LARGEST:g}.")
