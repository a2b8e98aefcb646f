"""Means over seeds and trials with 95 % intervals, and differences paired by seed and layout.

A figure is a weighted sum of cells for every seed: X_1 ... X_S. Two things vary: another seed trains another policy,
and another layout is easier or harder, for all seeds and groups alike. Each gives a distance from the mean to the end
of the interval:

    seeds:    t * s / sqrt(S), with s the standard deviation of X_1 ... X_S and t Student's quantile for S - 1
    layouts:  from the quantiles of the mean when layouts are drawn again, the same ones for every cell of a task

and the interval ends at the root of the sum of their squares. Resampling two or three seeds would give intervals that
are far too narrow; docs/studies.md has the measured coverage. With one seed there is only the part of the layouts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np

from holdfast.core.records import Trial

DRAWS = 4000
_TAIL = 0.025
_BEST = 100.0  # scores are from 0
_DIGITS = 6  # sums of the same numbers may differ behind them, from machine to machine

type StudyCell = tuple[str, int, str, int]  # group, seed, task, stage
type Sum = tuple[tuple[float, StudyCell], ...]  # weights of cells
type _Layout = tuple[str, ...]  # where a trial took place; the same for all runs that share it


@dataclass(frozen=True)
class StudyFigure:
    """A value, its 95 % interval, and what it rests on: the number of seeds, and of trials in all.

    `value` is None where it was not measured. `low` and `high` are None unless every cell has two trials or more. With
    one seed the interval is over trials only.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    trials: int = 0


class StudyScores:
    """The scores of all cells of a study by layout, and their means when layouts are drawn again."""

    def __init__(self, trials: Mapping[StudyCell, Sequence[Trial]]) -> None:
        by_layout = {cell: _by_layout(cell, found) for cell, found in trials.items()}
        self._scores = {cell: scores for cell, scores in by_layout.items() if scores}
        self._all = {cell: frozenset(found) for cell, found in self._scores.items()}
        layouts: dict[str, set[_Layout]] = {}
        for (_, _, task, _), scores in self._scores.items():
            layouts.setdefault(task, set()).update(scores)
        self._layouts = {task: {key: n for n, key in enumerate(sorted(found))} for task, found in layouts.items()}
        self._weights = {task: _weights(task, len(found)) for task, found in self._layouts.items()}
        self._means: dict[tuple[StudyCell, frozenset[_Layout]], tuple[float, np.ndarray]] = {}

    def figure(self, sums: Mapping[int, Sum]) -> StudyFigure:
        """The mean over those seeds whose cells were all measured."""
        return self._figure({seed: [(w, c, self._all[c]) for w, c in found] for seed, found in self._whole(sums)})

    def difference(self, sums: Mapping[int, Sum], less: Mapping[int, Sum]) -> StudyFigure:
        """The mean difference over seeds that both have, on the layouts that all cells of a task and seed share.

        Where they share none, as with trials on a real robot, all trials of each count.
        """
        others, paired = dict(self._whole(less)), {}
        for seed, found in self._whole(sums):
            if seed in others and (terms := _subtract(found, others[seed])):
                shared: dict[str, frozenset[_Layout]] = {}
                for _, cell in terms:
                    shared[cell[2]] = shared.get(cell[2], self._all[cell]) & self._all[cell]
                paired[seed] = [(weight, cell, shared[cell[2]] or self._all[cell]) for weight, cell in terms]
        return self._figure(paired)

    def _whole(self, sums: Mapping[int, Sum]) -> list[tuple[int, Sum]]:
        """Seeds with at least one cell, all of them measured, in order."""
        return [(s, found) for s, found in sorted(sums.items()) if found and all(c in self._scores for _, c in found)]

    def _figure(self, sums: Mapping[int, Sequence[tuple[float, StudyCell, frozenset[_Layout]]]]) -> StudyFigure:
        if not sums:
            return StudyFigure()
        means = [[(weight, *self._mean(cell, layouts)) for weight, cell, layouts in found] for found in sums.values()]
        values = np.array([sum(weight * mean for weight, mean, _ in found) for found in means])
        used = {(cell, layouts) for found in sums.values() for _, cell, layouts in found}
        counts = [len(layouts) for _, layouts in used]
        low = high = None
        if min(counts) > 1:
            low, high = interval(values, np.array([sum(weight * drawn for weight, _, drawn in f) for f in means]))
            weights = [weight for weight, _, _ in means[0]]
            low = max(low, _BEST * sum(weight for weight in weights if weight < 0))  # no scores could give less
            high = min(high, _BEST * sum(weight for weight in weights if weight > 0))
        value, low, high = (None if x is None else round(x, _DIGITS) + 0.0 for x in (float(values.mean()), low, high))
        return StudyFigure(value, low, high, len(values), sum(counts))

    def _mean(self, cell: StudyCell, layouts: frozenset[_Layout]) -> tuple[float, np.ndarray]:
        """The mean of a cell over some of its layouts, and when these are drawn again."""
        key = (cell, layouts)
        if key not in self._means:
            chosen, task = sorted(layouts), cell[2]
            scores = np.array([self._scores[cell][layout] for layout in chosen])
            mean = float(scores.mean())
            weights = self._weights[task][[self._layouts[task][layout] for layout in chosen]]
            drawn = ((scores - mean) @ weights) / weights.sum(axis=0)
            # Weights of n layouts spread less than new layouts would, by this factor.
            self._means[key] = mean, mean + drawn * math.sqrt((len(chosen) + 1) / max(1, len(chosen) - 1))
        return self._means[key]


def interval(values: np.ndarray, drawn: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean of `values`, one per seed, which are `drawn` (seeds, draws) with other layouts."""
    seeds, mean = len(values), values.mean()
    low, high = np.quantile(drawn.mean(axis=0), (_TAIL, 1 - _TAIL))
    between = student_t(seeds - 1) * values.std(ddof=1) / math.sqrt(seeds) if seeds > 1 else 0.0
    return float(mean - math.hypot(between, mean - low)), float(mean + math.hypot(between, high - mean))


@cache
def student_t(degrees: int) -> float:
    """The 97.5 % quantile of Student's t distribution, from its closed form for whole degrees of freedom."""
    low, high = 0.0, math.pi / 2  # of the angle atan(t / sqrt(degrees))
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _student_share(angle, degrees) < 1 - 2 * _TAIL else (low, angle)
    return math.sqrt(degrees) * math.tan(low)


def _student_share(angle: float, degrees: int) -> float:
    """The share of Student's distribution between -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    odd = degrees % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for n in range(2 + odd, degrees + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (n - 1) / n
    return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total


def _by_layout(cell: StudyCell, trials: Sequence[Trial]) -> dict[_Layout, float]:
    """Scores by layout. A trial without a seed has a layout of its own, and so has a repetition."""
    scores: dict[_Layout, float] = {}
    for number, trial in enumerate(trials):
        own = (*map(str, cell), str(number))
        layout = (trial.source, trial.level, str(trial.seed))
        if trial.score is not None:
            scores[(*layout, *own) if trial.seed is None or layout in scores else layout] = trial.score
    return scores


def _weights(task: str, layouts: int) -> np.ndarray:
    """Random weights (layouts, draws) of a Bayesian bootstrap: no draw leaves a cell without any layout."""
    return np.random.default_rng(crc32(task.encode())).exponential(size=(layouts, DRAWS))


def _subtract(found: Sum, less: Sum) -> Sum:
    """The difference of two sums; cells that both have alike, as a common baseline, cancel."""
    weights: dict[StudyCell, float] = {}
    for weight, cell in (*found, *((-weight, cell) for weight, cell in less)):
        weights[cell] = weights.get(cell, 0.0) + weight
    return tuple((weight, cell) for cell, weight in weights.items() if weight)
