"""The results of a study: its runs, in groups that differ only in their seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.report.gather import RunResults
from holdfast.studies.evidence import Evidence, gather_evidence, results_of
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
    """The results in a study's folder."""
    return evidence_results(gather_evidence(study, folder), folder.runs)


def evidence_results(evidence: Evidence, origin: Path) -> StudyResults:
    """The results that evidence holds. `origin` is the folder of the runs, or the file that it was read from."""
    groups: dict[str, RunGroup] = {}
    for run in evidence.study.runs():
        group = groups.setdefault(run.label, RunGroup(run.label, run.flags, {}))
        found = evidence.runs.get(run.name)
        if found and found.trials:
            group.runs[run.seed] = results_of(run.name, origin / run.name, found)
    return StudyResults(evidence.study, tuple(group for group in groups.values() if group.runs))
