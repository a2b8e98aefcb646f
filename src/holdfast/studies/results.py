"""The results of a study: its runs, in groups that differ only in their seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.report.gather import RunResults
from holdfast.runs.sources import by_source, choose_source
from holdfast.studies.evidence import Evidence, check_groups, gather_evidence, results_of
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
    """A study and what its runs have shown so far, by one source of trials; `others` counts the trials of the rest."""

    study: Study
    groups: tuple[RunGroup, ...]
    source: str = ""
    others: dict[str, int] = field(default_factory=dict)


def study_results(study: Study, folder: StudyFolder, source: str | None = None) -> StudyResults:
    """The results in a study's folder."""
    return evidence_results(gather_evidence(study, folder), folder.runs, source)


def evidence_results(evidence: Evidence, origin: Path, source: str | None = None) -> StudyResults:
    """The results that evidence holds.

    Args:
        evidence: Of one study.
        origin: The folder of the runs, or the file that it was read from.
        source: The source of the trials; by default the study's arena, or the only one.
    """
    check_groups(evidence)
    study, groups = evidence.study, dict[str, RunGroup]()
    counts = {
        name: len(found) for name, found in by_source(t for r in evidence.runs.values() for t in r.trials).items()
    }
    source = choose_source(counts, source, f"study {study.name}", own=study.arena)
    for run in study.runs():
        group = groups.setdefault(run.label, RunGroup(run.label, run.flags, {}))
        found = evidence.runs.get(run.name)
        results = results_of(run.name, origin / run.name, found, source) if found else None
        if results and results.trials:
            group.runs[run.seed] = results
    others = {name: count for name, count in counts.items() if name != source}
    return StudyResults(study, tuple(group for group in groups.values() if group.runs), source, others)
