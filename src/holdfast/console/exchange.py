"""Trials as CSV, for spreadsheets and for scores that were taken on paper.

A list is written `reached; lifted`, counts and times `dropped=2; tipped=1`. Export, import and export again give the
same file; trials that exist already are not added twice, and rows that contradict them are refused. Text that a
spreadsheet would take for a formula gets a `'` in front, which import takes away again.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.console.columns import READERS, plain, to_field
from holdfast.console.sheets import Operator
from holdfast.core import outside
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.files import write_text
from holdfast.core.json_records import from_json
from holdfast.core.records import OPERATOR, Task, Trial
from holdfast.rubric import score_trial
from holdfast.runs.run import Run
from holdfast.runs.trials import Trials, checked, trial_from_row, trial_to_row

_FIRST_COLUMNS = (
    "run", "task", "stage", "when", "source", "operator", "seed", "level", "milestones", "penalties", "final", "valid",
    "score", "seconds", "times", "notes", "video", "policy", "normalization",
)  # fmt: skip
COLUMNS = (*_FIRST_COLUMNS, "protocol")  # earlier exports have no such column: it stands before their notes
_NEEDED = ("task", "stage", "when", "milestones")


def export(runs: Sequence[Run], path: Path) -> int:
    """Write the current trials of these runs in the order in which they were added; return their number."""
    _named(runs)
    _check_replaceable(path)
    rows: list[list[str]] = []
    for run in runs:
        with Trials(run.trials) as trials:
            found = [trial_to_row(trial) | {"run": run.name} for trial in trials.all()]
        rows += ([to_field(row[name]) for name in COLUMNS] for row in found)
    bare = any("\r" in field for row in rows for field in row)  # csv would not quote it
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL)
    writer.writerows([COLUMNS, *rows])
    try:
        write_text(path, text.getvalue())
    except OSError as error:
        raise HoldfastError(f"{path} cannot be written: {error.strerror}.") from None
    return len(rows)


def _check_replaceable(path: Path) -> None:
    """Refuse to write over anything but an earlier export."""
    if path.suffix.lower() != ".csv":
        raise HoldfastError(f"--export {path} must name a CSV file. Try {path.name}.csv.")
    try:
        if not path.exists():
            return
        if not path.is_file():
            raise HoldfastError(f"--export {path} is not a file. Choose another name.")
        with outside.open_file(path) as file:
            first = file.readline(1000)
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror}.") from None
    names = first.decode("utf-8-sig", errors="replace").replace('"', "").strip().split(",")
    if first and tuple(names) not in (COLUMNS, _FIRST_COLUMNS):
        raise HoldfastError(f"{path} exists and is no export of trials. Choose another name, or move it away.")


def read(runs: Sequence[Run], path: Path) -> tuple[int, int]:
    """Add the trials of a CSV file. All are checked before any is written. Return how many there are and are new."""
    return store(runs, {f"{path}, line {line}": trial for line, trial in _trials(_named(runs), path).items()})


def store(runs: Sequence[Run], found: dict[str, Trial]) -> tuple[int, int]:
    """Add trials by their origin, all or none. Return how many there are and are new."""
    new = 0
    with ExitStack() as files:  # all are written when it ends, or none
        for name, run in _named(runs).items():
            own = {origin: trial for origin, trial in found.items() if trial.run == name}
            trials = files.enter_context(Trials(run.trials))
            _check_policies(run, trials, own)
            new += files.enter_context(trials.extending(own))
    return len(found), new


def _check_policies(run: Run, trials: Trials, found: dict[str, Trial]) -> None:
    """Refuse weights that the run does not know: taken for a new training, they would void the trials of their cell."""
    known = {(trial.task, trial.stage, trial.weights) for trial in trials.all()}
    used = {trial.stage for trial in found.values() if trial.weights}
    trained = {stage.number: stage.checkpoint.recorded_weights_hash for stage in run.stages if stage.number in used}
    for origin, trial in found.items():
        own = trained.get(trial.stage, "")
        if trial.weights not in ("", own) and (trial.task, trial.stage, trial.weights) not in known:
            raise HoldfastError(
                f"{origin}, column 'policy': {trial.weights[:80]!r} is not the hash of the weights of stage "
                f"{trial.stage} ({own or 'not recorded'}), and no trial of the cell has it. Leave it empty if these "
                "weights were tried, or delete the row: trials of weights that were replaced do not count."
            )


def _named(runs: Sequence[Run]) -> dict[str, Run]:
    by_name = {run.name: run for run in runs}
    if len(by_name) < len(runs):
        raise HoldfastError("Two runs have the same folder name, so rows would be ambiguous. Rename one.")
    return by_name


def _trials(runs: dict[str, Run], path: Path) -> dict[int, Trial]:
    """The trials by line."""
    reader = csv.reader(io.StringIO(outside.read_text(path), newline=""))
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, path, len(runs) > 1)
        rows = [(reader.line_num, row) for row in reader if any(field.strip() for field in row)]
    except csv.Error as error:
        raise HoldfastError(f"{path}, line {reader.line_num}: not valid CSV, {error}.") from None
    return {line: _trial(runs, path, line, header, row) for line, row in rows}


def _check_header(header: list[str], path: Path, several: bool) -> None:
    for name in header:
        if name not in COLUMNS:
            raise unknown(f"column in line 1 of {path}", name, COLUMNS)
        if header.count(name) > 1:
            raise HoldfastError(f"{path}, line 1: column {name!r} is there twice. Keep one.")
    for name in (*_NEEDED, *(["run"] if several else [])):
        if name not in header:
            raise HoldfastError(f"{path}, line 1: column {name!r} is missing. Needed: {', '.join(_NEEDED)}.")


@dataclass(frozen=True)
class _Signature:
    """A name that the page would take too."""

    operator: Operator


class _FieldError(Exception):
    """The value of one column is wrong."""

    def __init__(self, column: str, problem: object) -> None:
        super().__init__(str(problem))
        self.column = column


def _trial(runs: dict[str, Run], path: Path, line: int, header: list[str], row: list[str]) -> Trial:
    if len(row) != len(header):
        raise HoldfastError(f"{path}, line {line}: {len(row)} fields for {len(header)} columns.")
    content = {name: plain(name, field) for name, field in zip(header, row, strict=True) if field.strip()}
    try:
        values = {name: _value(name, text) for name, text in content.items() if name != "run"}
        if tuple(header) != _FIRST_COLUMNS:
            values = {"protocol": "", **values}
        return checked(_trial_of(_run(runs, content.get("run", "")), values))
    except _FieldError as error:
        raise HoldfastError(f"{path}, line {line}, column {error.column!r}: {error}") from None
    except HoldfastError as error:
        raise HoldfastError(f"{path}, line {line}: {error}") from None


def _run(runs: dict[str, Run], name: str) -> Run:
    if not name and len(runs) == 1:
        return next(iter(runs.values()))
    if name not in runs:
        raise _FieldError("run", unknown("run", name, runs))
    return runs[name]


def _value(column: str, text: str) -> Any:
    try:
        return READERS.get(column, str)(text)
    except ValueError as error:
        raise _FieldError(column, error) from None


def _trial_of(run: Run, values: dict[str, Any]) -> Trial:
    """The trial of a row, checked by the console's rules. Empty fields get their defaults."""
    if values.get("task") not in run.names:
        raise _FieldError("task", unknown("task of the run", values.get("task", ""), run.names))
    finished = [stage.number for stage in run.stages]
    if values.get("stage") not in finished:
        raise _FieldError("stage", unknown("finished stage", values.get("stage", ""), finished))
    if not values.get("when"):
        raise _FieldError("when", "a trial is identified by its time; give Unix seconds or 2026-11-15T16:10:02.")
    trial = trial_from_row({"milestones": [], "source": OPERATOR, **values, "run": run.name})
    if trial.source == OPERATOR and not trial.operator:
        raise _FieldError("operator", "the operator's name is missing.")
    if trial.operator:
        trial = replace(trial, operator=from_json(_Signature, {"operator": trial.operator}, "It").operator)
    score = _score(run.tasks[run.names.index(trial.task)], trial)
    if not trial.valid:
        return trial
    if trial.score is not None and not math.isclose(trial.score, score, abs_tol=1e-6):
        raise _FieldError(
            "score", f"the rubric gives {score:g}, not {trial.score:g}. Leave it empty, or correct the row."
        )
    return replace(trial, score=score) if trial.score is None else trial


def _score(task: Task, trial: Trial) -> float:
    names = [milestone.name for milestone in task.milestones]
    if trial.score is not None and trial.source != "operator" and not trial.milestones and not trial.penalties:
        return trial.score  # from elsewhere, by no rubric
    for column, said in (("milestones", trial.milestones), ("times", trial.times)):
        for name in said:
            if name not in names:
                raise _FieldError(column, unknown(f"milestone of {task.name!r}", name, names))
    try:
        return score_trial(task, trial)
    except HoldfastError as error:
        raise _FieldError("penalties", error) from None
