"""The cells of a matrix while they are being measured: which trials are left, and when there are enough."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.core.records import Trial
from holdfast.methods.method import Arrangement
from holdfast.runs.run import FinishedStage

# Which cells are measured: those that AS, BWT and FWT at the end of a stream need, or all.
CELLS = ("needed", "all")
LEAST = 5  # trials before a cell may stop early
Z = 1.959964  # 95 %


def is_measured(cells: str, arrangement: Arrangement, task: str, stage: str, last: bool) -> bool:
    """Whether a task is tried after the stage that learned another or the same, and whether that is the last one.

    The metrics of a stream need each task after its own and after the last stage.
    """
    return cells == "all" or arrangement != "stream" or task == stage or last


@dataclass
class Cell:
    """One task after one stage: its seeds in order, and the scores of the valid trials written so far.

    Trials end in any order but are written in the order of their seeds, and only written trials decide whether there
    are enough. So the trials of a cell that stops early do not depend on how many processes ran them.
    """

    stage: FinishedStage
    task: str
    seeds: Sequence[int]
    width: float | None = None
    known: dict[int, float] = field(default_factory=dict)  # from earlier evaluations, by seed
    scores: list[float] = field(default_factory=list)
    _waiting: dict[int, Trial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._missing = [seed for seed in self.seeds if seed not in self.known]
        self._written = 0  # trials, valid or not
        self._pass_known()

    def left(self) -> Iterator[int]:
        """Seeds still to be run, for as long as more are needed."""
        for seed in self._missing:
            if self.settled:
                return
            yield seed

    def add(self, trial: Trial) -> Iterator[Trial]:
        """Add a finished trial; yields those that can now be written."""
        assert trial.seed is not None
        self._waiting[trial.seed] = trial
        while not self.settled and self.seeds[self._written] in self._waiting:
            due = self._waiting.pop(self.seeds[self._written])
            self._written += 1
            if due.valid:
                assert due.score is not None
                self.scores.append(due.score)
            yield due
            self._pass_known()

    @property
    def remaining(self) -> int:
        """How many trials there are still to write, if it does not stop early."""
        return 0 if self.settled else sum(seed not in self.known for seed in self.seeds[self._written :])

    @property
    def settled(self) -> bool:
        """Whether nothing more needs to be run: all seeds are done, or the interval is narrow enough."""
        if self._written == len(self.seeds):
            return True
        return self.width is not None and len(self.scores) >= LEAST and interval_width(self.scores) < self.width

    def _pass_known(self) -> None:
        while not self.settled and self.seeds[self._written] in self.known:
            self.scores.append(self.known[self.seeds[self._written]])
            self._written += 1


def interval_width(scores: Sequence[float]) -> float:
    """Width of Wilson's 95 % interval for the mean of scores from 0 to 100.

    It treats scores as all or nothing, the largest possible spread about their mean; so a few equal scores do not count
    as certainty, as they would with the observed spread. (SciPy's Wilson interval takes only whole counts, not sums of
    partial scores.)
    """
    n, mean = len(scores), sum(scores) / len(scores) / 100
    return 200 * Z / (1 + Z**2 / n) * math.sqrt(mean * (1 - mean) / n + Z**2 / (4 * n * n))
