"""A part of a study: the runs that have some settings, so that machines which never meet can share the work."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import without_folders
from holdfast.studies.study import Study, StudyRun
from holdfast.train.config_flags import flag_text


def part_of(study: Study, settings: Sequence[str]) -> tuple[StudyRun, ...]:
    """The runs that have all `settings`, each `flag=value` or `flag=value,value`. No settings: all runs."""
    runs = study.runs()
    given = [_given(run) for run in runs]
    wanted: dict[str, list[str]] = {}
    for setting in settings:
        flag, equals, text = setting.partition("=")
        if not equals:
            raise HoldfastError(f"--only takes settings like seed=1 or method=er,joint, got {setting!r}.")
        if flag in wanted:
            raise HoldfastError(f"--only names {flag} twice. Separate its values by commas, like seed=1,2.")
        wanted[flag] = _values(flag, text, given)
    found = [all(own.get(flag) in values for flag, values in wanted.items()) for own in given]
    if not any(found):
        groups = ", ".join(label for label, _ in study.groups)
        raise HoldfastError(f"No run of {study.name} has all of --only {' '.join(settings)}. Groups of runs: {groups}.")
    return tuple(run for run, wants in zip(runs, found, strict=True) if wants)


def _given(run: StudyRun) -> dict[str, str]:
    """A run's seed and flags as text, the same on every machine."""
    return {"seed": str(run.seed)} | {flag: flag_text(value) for flag, value in without_folders(run.flags).items()}


def _values(flag: str, text: str, given: Sequence[dict[str, str]]) -> list[str]:
    """The values that a text names, separated by commas. A list of the study's file is one value."""
    valid = list(dict.fromkeys(own[flag] for own in given if flag in own))
    if not valid:
        raise unknown("flag of --only", flag, dict.fromkeys(name for own in given for name in own))
    values = [text] if text in valid else re.split(r",(?![^\[]*\])", text)
    for value in values:
        if value not in valid:
            raise unknown(f"value of --only {flag}", value, valid)
    return values
