"""Compares runs, trial by trial where they share seeds, and correlates two measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.core.records import Matrix
from holdfast.metrics import Figure, mean_of_means
from holdfast.report.gather import RunResults

type _Signed = tuple[int, RunResults, int, int]  # +1 or -1, run, task, stage


@dataclass(frozen=True)
class Difference:
    """One run minus another: the difference of each metric over the seeds that both share."""

    run: str
    less: str
    average_score: Figure
    bwt: Figure
    fwt: Figure
    seeds: int  # fewest shared in any cell used; 0: nothing is paired


@dataclass(frozen=True)
class Correlation:
    """How two measures of the same cells correlate; None where one of them does not vary."""

    cells: int
    pearson: float | None
    spearman: float | None


def difference(run: RunResults, less: RunResults) -> Difference | None:
    """The paired difference of two runs on the same tasks by the same source; None when they cannot be compared."""
    if (run.names, run.source) != (less.names, less.source):
        return None
    last = len(run.tasks)
    final = [[(1, run, i, last), (-1, less, i, last)] for i in range(1, last + 1)]
    average, seeds = _paired(final)
    bwt = fwt = Figure(None)
    if run.continual and less.continual:
        first = [[(1, run, j, j), (-1, less, j, j)] for j in range(1, last + 1)]
        changes = [[*final[j], *((-sign, r, i, k) for sign, r, i, k in first[j])] for j in range(last - 1)]
        bwt, _ = _paired(changes)
        fwt, _ = _paired(first[1:])  # the baseline is the same for both and cancels
    return Difference(run.name, less.name, average, bwt, fwt, seeds)


def _paired(terms: Sequence[Sequence[_Signed]]) -> tuple[Figure, int]:
    """Mean over terms of the signed sums, seed by seed over the seeds that all cells of a term share."""
    groups = []
    for term in terms:
        cells = [(sign, _by_seed(run, task, stage)) for sign, run, task, stage in term]
        shared = set.intersection(*(set(scores) for _, scores in cells))
        groups.append([sum(sign * scores[seed] for sign, scores in cells) for seed in sorted(shared)])
    fewest = min((len(group) for group in groups), default=0)
    return (mean_of_means(groups), fewest) if fewest else (Figure(None), 0)


def _by_seed(run: RunResults, task: int, stage: int) -> Mapping[tuple[str, int], float]:
    return {(t.level, t.seed): t.score for t in run.of(task, stage) if t.seed is not None and t.score is not None}


def correlation(one: Matrix, other: Matrix) -> Correlation:
    """Pearson's and Spearman's coefficients over the means of the cells that both matrices hold."""
    shared = sorted(one.cells.keys() & other.cells.keys())
    x = np.array([np.mean(one.cells[key]) for key in shared])
    y = np.array([np.mean(other.cells[key]) for key in shared])
    return Correlation(len(shared), _pearson(x, y), _pearson(_ranks(x), _ranks(y)))


def _pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values get the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count + 1) / 2)[place]
