"""The results of a study: its runs, in groups that differ only in their seed."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.report.gather import RunResults, read_results
from holdfast.studies.jobs import StudyFolder
from holdfast.studies.study import Flags, Study


@dataclass(frozen=True)
class RunGroup:
    """The runs with the same flags, by seed. Runs without trials are left out."""

    label: str
    flags: Flags
    runs: dict[int, RunResults]


@dataclass(frozen=True)
class StudyResults:
    """A study and what its runs have shown so far."""

    study: Study
    groups: tuple[RunGroup, ...]


def study_results(study: Study, folder: StudyFolder) -> StudyResults:
    """Read the runs of a study that have trials."""
    groups: dict[str, RunGroup] = {}
    for run in study.runs():
        group = groups.setdefault(run.label, RunGroup(run.label, run.flags, {}))
        paths = folder.run(run)
        if paths.trials.exists():
            group.runs[run.seed] = read_results(paths.root)
    return StudyResults(study, tuple(group for group in groups.values() if group.runs))
