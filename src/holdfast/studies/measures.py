"""The metrics of a study's groups as sums of cells, with single-task scores of any of its runs as baseline of FWT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from holdfast.core.records import Trial
from holdfast.report.gather import RunResults
from holdfast.studies.results import RunGroup, StudyResults
from holdfast.studies.statistics import StudyCell, StudyFigure, StudyScores, Sum
from holdfast.studies.study import Flags

type Sums = Mapping[int, Sum]  # by seed
_ELSEWHERE = ("method", "stream", "tasks")  # flags in which a run and its baseline may differ freely


class Measures:
    """Every metric of every group of a study."""

    def __init__(self, results: StudyResults) -> None:
        self.groups = {group.label: group for group in results.groups}
        self.scores = StudyScores(_trials(results))
        self._alone = [group for group in results.groups if first_run(group).arrangement == "alone"]

    def figure(self, metric: str, group: RunGroup, stage: int | None = None) -> StudyFigure:
        """A metric of a group after a stage; without one, after the last."""
        return self.scores.figure(self.sums(metric, group, stage))

    def difference(self, metric: str, group: RunGroup, less: RunGroup) -> StudyFigure:
        """A metric of one group after its last stage minus that of another, paired by seed and layout."""
        return self.scores.difference(self.sums(metric, group), self.sums(metric, less))

    def sums(self, metric: str, group: RunGroup, stage: int | None = None) -> Sums:
        """The cells that make up a metric, for every seed; none where the metric is undefined."""
        run = first_run(group)
        k = len(run.learned) if stage is None else stage
        if metric != "average_score" and not run.continual:
            return {}
        make: Callable[[RunGroup, int, int], Sum] = {
            "average_score": _average_score, "bwt": _bwt, "fwt": self._fwt
        }[metric]  # fmt: skip
        return {seed: make(group, seed, k) for seed in sorted(group.runs)}

    def cell(self, group: RunGroup, task: str, stage: int) -> StudyFigure:
        """The mean score of a task after a stage."""
        return self.scores.figure({seed: ((1.0, (group.label, seed, task, stage)),) for seed in group.runs})

    def alone(self, group: RunGroup, task: str) -> StudyFigure:
        """The single-task score that a group's FWT compares with."""
        return self.scores.figure({seed: self._baseline(group, seed, task) for seed in group.runs})

    def transfer(self, group: RunGroup, task: str) -> StudyFigure:
        """The score of a task after its own stage (its first visit), less its single-task score."""
        return self.scores.figure({seed: self._transfer(group, seed, task) for seed in group.runs})

    def _fwt(self, group: RunGroup, seed: int, k: int) -> Sum:
        _, *later = dict.fromkeys(first_run(group).learned[:k])
        terms = [self._transfer(group, seed, name) for name in later]
        return _mean(*terms) if all(terms) else ()

    def _transfer(self, group: RunGroup, seed: int, task: str) -> Sum:
        baseline = self._baseline(group, seed, task)
        own = (group.label, seed, task, first_run(group).learned.index(task) + 1)
        return ((1.0, own), *((-weight, cell) for weight, cell in baseline)) if baseline else ()

    def _baseline(self, group: RunGroup, seed: int, task: str) -> Sum:
        """Of the runs that learned the task alone, those with the most flags in common: the same seed, or else all."""
        found = [alone for alone in self._alone if task in first_run(alone).names]
        if not found:
            return ()
        alone = max(found, key=lambda other: _in_common(group.flags, other.flags))
        stage = len(first_run(alone).names)
        seeds = [seed] if seed in alone.runs else sorted(alone.runs)
        return tuple((1 / len(seeds), (alone.label, s, task, stage)) for s in seeds)


def first_run(group: RunGroup) -> RunResults:
    """A run that stands for the group in what all its runs have in common."""
    return group.runs[min(group.runs)]


def last_visits(learned: Sequence[str]) -> dict[str, int]:
    """Every task with the last stage that learned it."""
    return {name: stage for stage, name in enumerate(learned, 1)}


def _trials(results: StudyResults) -> dict[StudyCell, list[Trial]]:
    found: dict[StudyCell, list[Trial]] = {}
    for group in results.groups:
        for seed, run in group.runs.items():
            for trial in run.trials:
                found.setdefault((group.label, seed, trial.task, trial.stage), []).append(trial)
    return found


def _average_score(group: RunGroup, seed: int, k: int) -> Sum:
    seen = dict.fromkeys(first_run(group).learned[:k])
    return _mean(*(((1.0, (group.label, seed, name, k)),) for name in seen))


def _bwt(group: RunGroup, seed: int, k: int) -> Sum:
    label, last = group.label, last_visits(first_run(group).learned[:k])
    old = [(name, own) for name, own in last.items() if own < k]
    return _mean(*(((1.0, (label, seed, name, k)), (-1.0, (label, seed, name, own))) for name, own in old))


def _mean(*sums: Sum) -> Sum:
    return tuple((weight / len(sums), cell) for found in sums for weight, cell in found)


def _in_common(one: Flags, other: Flags) -> int:
    return sum(one[key] == other[key] for key in one.keys() & other.keys() if key not in _ELSEWHERE)
