"""Joins evidence of one study from machines that never met. What contradicts is refused, never averaged or dropped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import to_json
from holdfast.core.records import Trial
from holdfast.runs.settings import differences
from holdfast.studies.equal_runs import SettingsOf, equal_runs
from holdfast.studies.evidence import TIMED, Evidence, RangeEvidence, RunEvidence, StageEvidence, cell_of, identity
from holdfast.studies.evidence_file import read_evidence
from holdfast.studies.study import Study


def merge_files(
    files: Sequence[Path], settings: SettingsOf | None = None, study: Study | None = None
) -> tuple[Evidence, tuple[str, ...]]:
    """The evidence of all files, and the names of the runs that several of them have.

    It is evidence of `study`, or else of the first file's. With `settings`, files of other studies give the runs that
    this one has, too.
    """
    merged = Evidence(study, {}) if study else read_evidence(files[0])
    shared: dict[str, None] = {}
    for file in files if study else files[1:]:
        other = read_evidence(file)
        if settings and other.study.name != merged.study.name:
            other = _equal_part(merged, other, file, settings)
        _check_same_study(merged, other, file)
        runs = dict(merged.runs)
        for name, run in other.runs.items():
            if name in runs:
                shared[name] = None
            try:
                runs[name] = _merge_run(runs[name], run) if name in runs else run
            except HoldfastError as found:
                raise HoldfastError(f"Run {name!r} in {file} contradicts {_earlier(files, file)}: {found}") from None
        merged = replace(merged, runs=runs)
    return merged, tuple(shared)


def _equal_part(merged: Evidence, other: Evidence, file: Path, settings: SettingsOf) -> Evidence:
    found = equal_runs(merged.study, other, settings)
    if not found:
        raise HoldfastError(
            f"{file} is evidence of study {other.study.name!r}, which has no run of {merged.study.name!r}: settings, "
            "demonstrations and trials of a run would have to be the same."
        )
    return replace(merged, runs=found)


def _earlier(files: Sequence[Path], file: Path) -> str:
    before = files[: files.index(file)]
    return str(before[0]) if len(before) == 1 else "the files before it"


def _check_same_study(one: Evidence, other: Evidence, file: Path) -> None:
    """Refuse evidence of another study. Its claims may have changed in between; those of the first file count."""
    studies = [to_json(replace(evidence.study, claims=())) for evidence in (one, other)]
    for key, first, second in differences(*studies):
        raise HoldfastError(
            f"{file} is evidence of another study: {key} is {_short(second)}, not {_short(first)}. Only evidence of "
            "the same study can be merged."
        )
    if [run.name for run in one.study.runs()] != [run.name for run in other.study.runs()]:
        raise HoldfastError(f"{file} is evidence of another study: its flags stand in another order.")


def _merge_run(one: RunEvidence, other: RunEvidence) -> RunEvidence:
    for name in ("config", "tasks", "visits"):
        for key, first, second in differences(to_json(getattr(one, name)), to_json(getattr(other, name)), name):
            raise HoldfastError(f"{key} is {_short(second)}, not {_short(first)}.")
    return replace(
        one,
        stages=_merge_stages(one.stages, other.stages),
        range_checks=_merge_range_checks(one.range_checks, other.range_checks),
        heldout=_merge_heldout(one.heldout, other.heldout),
        trials=_merge_trials(one.trials, other.trials),
        seconds=_merge_seconds(one.seconds, other.seconds),
    )


def _merge_seconds(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Machines take different times for the same job; of two, the shorter counts."""
    return {kind: min(t[kind] for t in (one, other) if kind in t) for kind in TIMED if kind in one or kind in other}


def _merge_stages(one: Iterable[StageEvidence], other: Iterable[StageEvidence]) -> tuple[StageEvidence, ...]:
    """Every stage once; of two accounts the fuller. Equal weights may have different lines: training was resumed."""
    merged = {stage.number: stage for stage in one}
    for stage in other:
        known = merged.get(stage.number, stage)
        for word in ("name", "weights", "kept"):
            first, second = getattr(known, word), getattr(stage, word)
            if first and second and first != second:
                raise HoldfastError(
                    f"{word} of stage {stage.number} {_are(word)} {_short(second)}, not {_short(first)}."
                )
        fuller = max((known, stage), key=_fullness)
        merged[stage.number] = replace(fuller, kept=known.kept or stage.kept)
    return tuple(merged.values())


def _are(word: str) -> str:
    return "is" if word == "name" else "are"


def _fullness(stage: StageEvidence) -> tuple[Any, ...]:
    last = stage.lines[-1]["step"] if stage.lines else 0
    return bool(stage.weights), last, len(stage.lines), _text(stage)


def _merge_range_checks(one: Iterable[RangeEvidence], other: Iterable[RangeEvidence]) -> tuple[RangeEvidence, ...]:
    merged = {(check.stage, check.task): check for check in one}
    for check in other:
        known = merged.setdefault((check.stage, check.task), check)
        if _text(known) != _text(check):
            raise HoldfastError(f"the range check of {check.task} in stage {check.stage} differs.")
    return tuple(merged.values())


def _merge_heldout(
    one: dict[str, tuple[float, ...]] | None, other: dict[str, tuple[float, ...]] | None
) -> dict[str, tuple[float, ...]] | None:
    if one is None or other is None:
        return other if one is None else one
    merged = dict(one)
    for key, scores in other.items():
        known = merged.get(key, scores)
        shorter, longer = sorted((known, scores), key=len)
        if longer[: len(shorter)] != shorter:
            raise HoldfastError(f"the held-out scores of cell {key} are {list(scores)[:4]}, not {list(known)[:4]}.")
        merged[key] = longer
    return {key: merged[key] for key in sorted(merged, key=cell_of)}


def _merge_trials(one: Sequence[Trial], other: Sequence[Trial]) -> tuple[Trial, ...]:
    """Every trial once. Trials of a cell have the same weights, and those of an arena the same protocol."""
    merged = {identity(trial): trial for trial in one}
    made = {(trial.task, trial.stage, trial.source): _made(trial) for trial in one if not trial.operator}
    weights = {(trial.task, trial.stage): trial.weights for trial in one if trial.weights}
    for trial in other:
        cell = trial.task, trial.stage
        if trial.weights != weights.get(cell, trial.weights) and trial.weights:
            raise _differ(trial, "weights", trial.weights, weights[cell])
        if not trial.operator:
            for name, value in made.get((*cell, trial.source), {}).items():
                if getattr(trial, name) != value:
                    raise _differ(trial, name, str(getattr(trial, name)), str(value))
        known = merged.get(identity(trial), trial)
        _check_equal(trial, known)
        merged[identity(trial)] = min(trial, known, key=lambda trial: (trial.when, _text(trial)))
    return tuple(merged.values())


def _made(trial: Trial) -> dict[str, Any]:
    return {name: getattr(trial, name) for name in ("level", "protocol")}


def _check_equal(trial: Trial, known: Trial) -> None:
    """Refuse two results of one trial. A layout may have been tried twice, at different times."""
    for item in fields(Trial):
        first, second = getattr(known, item.name), getattr(trial, item.name)
        if first != second and item.name != "when":
            raise _differ(trial, item.name, second, first)


def _differ(trial: Trial, name: str, found: Any, known: Any) -> HoldfastError:
    layout = f", seed {trial.seed}" if trial.seed is not None else f", operator {trial.operator!r}"
    where = f"trial of {trial.task} after stage {trial.stage} ({trial.source or 'unknown source'}{layout})"
    return HoldfastError(f"{name} of the {where} is {_short(found)}, not {_short(known)}.")


def _text(record: Any) -> str:
    return json.dumps(to_json(record), sort_keys=True)


def _short(value: Any) -> str:
    return repr(value)[:80]
