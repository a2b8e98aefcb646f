"""How many more trials each cell needs until its interval is as narrow as wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.evaluate.cells import LEAST, Z
from holdfast.metrics import mean_of_means
from holdfast.runs.run import Run

_PRIOR = 3  # weight of the spread of all cells beside a cell's own, in trials
_WIDEST = 50.0  # standard deviation of scores that are all or nothing, half of each


@dataclass(frozen=True)
class Need:
    """A cell: what was measured, how wide its 95 % interval is, and how many trials are still needed."""

    task: str
    stage: int
    trials: int
    mean: float | None
    width: float | None
    more: int


@dataclass(frozen=True)
class TrialBudget:
    """All cells of a run, and how long a trial takes; None where none was timed."""

    needs: tuple[Need, ...]
    seconds: float | None

    @property
    def more(self) -> int:
        """Trials still needed in all."""
        return sum(need.more for need in self.needs)

    @property
    def hours(self) -> float | None:
        """Time that they take, without setting up the scenes."""
        return None if self.seconds is None else self.more * self.seconds / 3600


def trial_budget(run: Run, trials: Sequence[Trial], width: float) -> TrialBudget:
    """Which cells need how many more trials for intervals of at most `width` points.

    Intervals are those of the metrics: bootstrap over trials, whose width for n trials of standard deviation s comes to
    2 * 1.96 * s / sqrt(n). The spread s of a cell is its own, mixed with that of all cells as if 3 trials had shown it:
    so a few equal scores do not count as certainty, and a cell without trials is assumed to be like the others. Without
    any trial, the largest possible spread is assumed. No cell stops below 5 trials, as in `holdfast evaluate`.

    Args:
        run: Its finished stages, with the tasks they have seen, are the cells.
        trials: Those of one source that count.
        width: Wanted width of a 95 % interval, in points.
    """
    if not 0 < width <= 100:
        raise HoldfastError(f"--width must be above 0 and at most 100 points, got {width:g}.")
    cells: dict[tuple[str, int], list[float]] = {(n, s.number): [] for s in run.stages for n in s.seen}
    for trial in trials:
        if trial.score is not None and (trial.task, trial.stage) in cells:
            cells[trial.task, trial.stage].append(trial.score)
    pooled = _pooled(list(cells.values()))
    needs = tuple(_need(task, stage, scores, pooled, width) for (task, stage), scores in cells.items())
    timed = [trial.seconds for trial in trials if trial.seconds > 0]
    return TrialBudget(needs, sum(timed) / len(timed) if timed else None)


def _need(task: str, stage: int, scores: list[float], pooled: float, width: float) -> Need:
    count = len(scores)
    mean = sum(scores) / count if scores else None
    own = sum((score - mean) ** 2 for score in scores) if mean is not None else 0.0
    variance = (own + _PRIOR * pooled) / (count + _PRIOR)
    wanted = max(LEAST, math.ceil((2 * Z / width) ** 2 * variance))
    figure = mean_of_means([scores])
    found = None if figure.low is None or figure.high is None else figure.high - figure.low
    return Need(task, stage, count, mean, found, max(0, wanted - count))


def _pooled(cells: Sequence[Sequence[float]]) -> float:
    """Variance within cells, over all that have at least two trials."""
    several = [cell for cell in cells if len(cell) > 1]
    free = sum(len(cell) - 1 for cell in several)
    if not free:
        return _WIDEST**2
    return sum((score - sum(cell) / len(cell)) ** 2 for cell in several for score in cell) / free
