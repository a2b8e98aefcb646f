"""Runs that two studies have in common: carried out once, they are evidence for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.json_records import to_json
from holdfast.core.names import without_folders
from holdfast.core.records import Task
from holdfast.runs.settings import FREE
from holdfast.studies.evidence import Evidence, RunEvidence
from holdfast.studies.jobs import stream_of
from holdfast.studies.study import Study, StudyRun

# The settings of a run of a study, with the defaults of `holdfast train`, as plain values.
type SettingsOf = Callable[[Study, StudyRun], dict[str, Any]]


def equal_runs(study: Study, other: Evidence, settings: SettingsOf) -> dict[str, RunEvidence]:
    """What another study has shown of the runs of this one, by their names here.

    Runs are equal if their settings and tasks are, and if both studies record the same demonstrations and try policies
    alike.
    """
    if _surroundings(study) != _surroundings(other.study):
        return {}
    known = {_key(run.config, run.tasks): run for run in other.runs.values()}
    own = {run.name: _key(settings(study, run), [e.task for e in stream_of(run, "data").tasks]) for run in study.runs()}
    return {name: known[key] for name, key in own.items() if key in known}


def _surroundings(study: Study) -> tuple[Any, ...]:
    return study.arena, study.record, study.evaluate


def _key(config: dict[str, Any], tasks: Sequence[Task]) -> str:
    decides = {name: value for name, value in without_folders(config).items() if name not in FREE}
    return json.dumps([decides, to_json(list(tasks))], sort_keys=True)
