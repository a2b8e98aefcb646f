"""Evidence as one small file: JSON in gzip. The same evidence gives the same bytes; reading checks every value."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.core import outside
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.files import write_bytes
from holdfast.core.json_records import from_json, to_json
from holdfast.core.names import check_name
from holdfast.core.own_code import is_own
from holdfast.methods import METHODS
from holdfast.report.gather import WITHOUT_STAGES, is_progress
from holdfast.runs.trials import checked
from holdfast.studies.evidence import (
    LINE,
    TIMED,
    Evidence,
    RunEvidence,
    StageEvidence,
    cell_of,
    check_groups,
    identity,
)
from holdfast.studies.study import StudyRun, study_from_json

SUFFIX = ".evidence.json.gz"
VERSION = 1
_FORMAT = "holdfast study evidence"
_LARGEST = 64 * 2**20  # bytes of JSON
_CELL = re.compile(r"[1-9][0-9]{0,3},[1-9][0-9]{0,3}")


def write_evidence(evidence: Evidence, file: Path) -> Path:
    """Write evidence to a file whose name ends in `SUFFIX`. Nothing is written if it could not be read again."""
    if not file.name.endswith(SUFFIX):
        raise HoldfastError(f"--output must end in {SUFFIX}, got {file}. Try --output={file.with_suffix('')}{SUFFIX}.")
    try:
        _check(evidence)
    except HoldfastError as error:
        raise HoldfastError(f"{file} was not written: {error}") from None
    runs = {name: replace(run, trials=tuple(replace(t, video="") for t in run.trials)) for name, run in _runs(evidence)}
    content = {"format": _FORMAT, "version": VERSION, "study": to_json(evidence.study), "runs": to_json(runs)}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    packed = gzip.compress(text, mtime=0)
    if len(text) > _LARGEST or len(packed) > outside.LARGEST:
        raise HoldfastError(
            f"{file} would hold {len(text) >> 20} MiB of evidence, more than the {_LARGEST >> 20} MiB that are read "
            "back. Divide the study."
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, packed)
    except OSError as error:
        raise HoldfastError(f"{file} cannot be written ({error.strerror}). Give another --output.") from None
    return file


def read_evidence(file: Path) -> Evidence:
    """Read a file of evidence, which may come from anywhere."""
    content = outside.parse_json(outside.read_gzip_text(file, _LARGEST), file, finite=False)
    match content:
        case {"format": str() as form, "version": version, "study": study, "runs": dict() as runs} if form == _FORMAT:
            pass
        case _:
            raise HoldfastError(f"{file} is not evidence of a study. Make it with `holdfast study pack`.")
    if version != VERSION:
        raise HoldfastError(
            f"{file} has version {version!r} of the evidence format, this Holdfast reads version {VERSION}. "
            "Pack the study again with this Holdfast."
        )
    found = {name: from_json(RunEvidence, run, f"{file}: run {name[:80]!r}") for name, run in runs.items()}
    evidence = Evidence(study_from_json(study, f"{file}: its study"), found)
    try:
        _check(evidence)
    except HoldfastError as error:
        raise HoldfastError(f"{file} cannot be used: {error}") from None
    return evidence


def _runs(evidence: Evidence) -> Iterator[tuple[str, RunEvidence]]:
    """The runs that there are, in the study's order."""
    for run in evidence.study.runs():
        if run.name in evidence.runs:
            yield run.name, evidence.runs[run.name]


def _check(evidence: Evidence) -> None:
    evidence.study.check_picks()
    check_groups(evidence)
    runs = {run.name: run for run in evidence.study.runs()}
    for name, run in evidence.runs.items():
        if name not in runs:
            raise unknown(f"run of study {evidence.study.name}", name[:80], runs)
        try:
            _check_run(runs[name], run)
        except HoldfastError as error:
            raise HoldfastError(f"run {name!r}: {error}") from None


def _check_run(planned: StudyRun, run: RunEvidence) -> None:
    names = run.names
    for name in names:
        check_name(name, "task")
    _require(bool(names) and len(set(names)) == len(names), f"it must list every task once, got {list(names)}.")
    first = list(dict.fromkeys(run.visits))
    _require(not first or first == list(range(1, len(names) + 1)), f"its visits are of other tasks: {first[:20]}.")
    _require(len(run.visits) <= 9999, f"it has {len(run.visits)} visits; there are at most 9999.")
    method, seed = run.config.get("method"), run.config.get("seed")
    if isinstance(method, str) and method in METHODS:
        own, got = METHODS[method].arrangement, run.arrangement
        _require(got == own, f"its stages are arranged as {got!r}, those of {method} as {own!r}.")
    elif not is_own(str(method)):
        raise unknown("method", method, METHODS)
    asked = planned.flags.get("method", method)
    _require((method, seed) == (asked, planned.seed), f"it has method {method} and seed {seed}, which its name denies.")
    timed = run.seconds.keys() <= set(TIMED) and all(0 < value < math.inf for value in run.seconds.values())
    _require(timed, f"it has times of {', '.join(TIMED)} in seconds, not {str(run.seconds)[:80]}.")
    for stage in run.stages:
        _check_stage(stage)
    for check in run.range_checks:
        _require(check.task in names and bool(check.rows), f"its range check of {check.task[:80]!r} is of no task.")
    _check_once([stage.number for stage in run.stages], "stage")
    _check_once([(check.stage, check.task) for check in run.range_checks], "range check")
    _check_scores(run)


def _check_stage(stage: StageEvidence) -> None:
    check_name(stage.name, "stage")
    _require(1 <= stage.number <= 9999, f"stages have numbers from 1 to 9999, got {stage.number}.")
    _require(stage.weights_bytes >= 0, f"stage {stage.number} has {stage.weights_bytes} bytes of weights.")
    for line in stage.lines:
        _require(_is_line(line), f"a line of losses of stage {stage.number} is not one: {str(line)[:80]}.")
    for task, (kept, total) in stage.kept.items():
        _require(0 <= kept <= total, f"stage {stage.number} keeps {kept} of {total} episodes of {task[:80]!r}.")


def _is_line(line: dict[str, Any]) -> bool:
    values = [n for value in line.values() for n in (value.values() if isinstance(value, dict) else [value])]
    numbers = all(type(n) in (int, float) and math.isfinite(n) for n in values)
    return numbers and line.keys() <= set(LINE) and is_progress(line)


def _check_scores(run: RunEvidence) -> None:
    tasks, stages = len(run.tasks), len(run.visits) or len(run.tasks)
    rows = (tasks,) if run.arrangement in WITHOUT_STAGES else range(1, stages + 1)
    for key, scores in (run.heldout or {}).items():
        known = _CELL.fullmatch(key) and cell_of(key)[0] <= tasks and cell_of(key)[1] in rows
        _require(bool(known) and all(map(math.isfinite, scores)), f"its held-out scores of cell {key[:80]!r} are none.")
    for trial in run.trials:
        checked(trial)
        known = trial.task in run.names and trial.stage in rows and trial.valid
        _require(known, f"a trial of {trial.task[:80]!r} after stage {trial.stage} is of none of its cells.")
    _check_once([identity(trial) for trial in run.trials], "trial")


def _check_once(keys: list[Any], what: str) -> None:
    seen = set()
    for key in keys:
        _require(key not in seen, f"its {what} {key} is there twice.")
        seen.add(key)


def _require(ok: bool, reason: str) -> None:
    if not ok:
        raise HoldfastError(reason)
