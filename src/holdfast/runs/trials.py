"""All trials of a run in one append-only SQLite file.

Several evaluations and an operator's console may write at the same time. At about one trial a second, waiting for the
disk costs nothing. A correction is a new row that supersedes an old one; both stay in the file.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from holdfast.core.append_only import AppendOnlyFile
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import Matrix, Trial, TrialProtocol

VERSION = 1
_JSON = ("milestones", "penalties", "times")
_FLAGS = ("final", "valid")
# On disk the hash of the weights is called `policy`, and the protocol is text before the notes. This is the format of
# the first evaluated runs, whose trials can still be read and compared.
_COLUMNS = tuple("policy" if f.name == "weights" else f.name for f in fields(Trial) if f.name != "protocol")
_PROTOCOL = re.compile(r"(rolled out, )?horizon (\d+)(?:, asked (\d+) ahead)?(?:; (.*))?", re.DOTALL)
_SCHEMA = """
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL, task TEXT NOT NULL, stage INTEGER NOT NULL,
    source TEXT NOT NULL, seed INTEGER, level TEXT NOT NULL, operator TEXT NOT NULL,
    milestones TEXT NOT NULL, times TEXT NOT NULL, penalties TEXT NOT NULL, final INTEGER NOT NULL,
    seconds REAL NOT NULL, score REAL, video TEXT NOT NULL, policy TEXT NOT NULL, normalization TEXT NOT NULL,
    notes TEXT NOT NULL, valid INTEGER NOT NULL, "when" REAL NOT NULL,
    supersedes INTEGER UNIQUE REFERENCES trials (id)
);
-- An evaluation that is started again cannot count a layout twice. Operators have no seed and repeat at will.
CREATE UNIQUE INDEX once ON trials (task, stage, seed, source, policy) WHERE seed IS NOT NULL AND supersedes IS NULL;
CREATE TRIGGER no_update BEFORE UPDATE ON trials BEGIN SELECT RAISE(ABORT, 'trials are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON trials BEGIN SELECT RAISE(ABORT, 'trials are never deleted'); END;
"""
_INSERT = (
    f"INSERT INTO trials ({', '.join(f'"{name}"' for name in _COLUMNS)}, supersedes) "
    f"VALUES ({', '.join('?' * (len(_COLUMNS) + 1))}) ON CONFLICT DO NOTHING RETURNING id"
)
_SAME_SEED = (
    "SELECT id FROM trials "
    "WHERE task = ? AND stage = ? AND seed = ? AND source = ? AND policy = ? AND supersedes IS NULL"
)
# Nobody judges two trials of a cell at the same instant, so the time identifies a trial without a seed.
_SAME_TIME = (
    'SELECT id FROM trials WHERE task = ?1 AND stage = ?2 AND source = ?3 AND operator = ?4 AND "when" = ?5 '
    "AND seed IS NULL AND (?6 IS NULL OR supersedes = ?6)"
)


class Trials(AppendOnlyFile):
    """The trials of one run. Every call is a transaction of its own; other processes see it at once."""

    def __init__(self, path: Path) -> None:
        """Open the file, and create it if there is none."""
        super().__init__(path, _SCHEMA, VERSION)

    def add(self, trial: Trial, supersedes: int | None = None) -> int:
        """Write a trial and return its number; one that exists already keeps its number and is not written again.

        An operator's trial exists already if there is one of the same cell, operator and time.

        Args:
            trial: The trial. Without a time it gets the current one.
            supersedes: Number of the trial that this one corrects.
        """
        if trial.valid and trial.score is None:
            raise HoldfastError(
                f"A trial of {trial.task!r} has no score. Score it with its rubric, or mark it not valid."
            )
        values = [_stored(name, value) for name, value in trial_to_row(trial).items()]
        values[_COLUMNS.index("when")] = trial.when or time.time()
        with self.explained(), self.writing():
            judged = (trial.task, trial.stage, trial.source, trial.operator, trial.when, supersedes)
            same = self.file.execute(_SAME_TIME, judged).fetchone() if trial.seed is None else None
            if same:
                return int(same[0])
            written = self.file.execute(_INSERT, [*values, supersedes]).fetchall()
            if written:
                return int(written[0][0])
            if supersedes is not None:
                raise HoldfastError(f"Trial {supersedes} was corrected already. Correct the correction.")
            key = (trial.task, trial.stage, trial.seed, trial.source, trial.weights)
            return int(self.file.execute(_SAME_SEED, key).fetchone()[0])

    def numbered(self, task: str | None = None, stage: int | None = None) -> dict[int, Trial]:
        """The current trials by number, with corrections in place of what they correct."""
        query = "SELECT * FROM trials t WHERE NOT EXISTS (SELECT 1 FROM trials c WHERE c.supersedes = t.id)"
        wanted = {name: value for name, value in (("task", task), ("stage", stage)) if value is not None}
        query += "".join(f" AND t.{name} = ?" for name in wanted)
        with self.explained():
            rows = self.file.execute(f"{query} ORDER BY t.id", tuple(wanted.values())).fetchall()
        return {row["id"]: trial_from_row({name: _read(name, row[name]) for name in _COLUMNS}) for row in rows}

    def all(self, task: str | None = None, stage: int | None = None) -> list[Trial]:
        """The current trials, in the order in which they were written."""
        return list(self.numbered(task, stage).values())

    def counted(self) -> list[Trial]:
        """The trials that count: valid, and if a stage was trained again, of its newest weights."""
        valid = [trial for trial in self.all() if trial.valid]
        newest = {(trial.task, trial.stage): trial.weights for trial in valid if trial.weights}
        return [t for t in valid if t.weights in ("", newest.get((t.task, t.stage), ""))]

    def matrix(self, names: Sequence[str]) -> Matrix:
        """Scores of the counted trials by task and stage, as `names` number the tasks."""
        cells: dict[tuple[int, int], list[float]] = {}
        for trial in self.counted():
            if trial.task not in names:
                raise unknown("task of the run in its trials", trial.task, names)
            if trial.score is not None:
                cells.setdefault((names.index(trial.task) + 1, trial.stage), []).append(trial.score)
        return Matrix(tuple(names), {key: tuple(cells[key]) for key in sorted(cells)})


def trial_to_row(trial: Trial) -> dict[str, Any]:
    """A trial as columns, as in files and exports."""
    values = {field.name: getattr(trial, field.name) for field in fields(Trial)}
    notes = [str(part) for part in (trial.protocol, trial.notes) if part]
    values |= {"policy": trial.weights, "notes": "; ".join(notes)}
    return {name: values[name] for name in _COLUMNS}


def trial_from_row(row: dict[str, Any]) -> Trial:
    """Inverse of `trial_to_row`; missing columns get their default values."""
    values = dict(row)
    if "policy" in values:
        values["weights"] = values.pop("policy")
    found = _PROTOCOL.fullmatch(values.get("notes", ""))
    if found:
        limits, horizon, ahead, notes = found.groups()
        values["protocol"] = TrialProtocol(int(horizon), int(ahead or 0), bool(limits))
        values["notes"] = notes or ""
    return Trial(**values)


def _stored(name: str, value: Any) -> Any:
    return json.dumps(value) if name in _JSON else value


def _read(name: str, value: Any) -> Any:
    if name in _JSON:
        value = json.loads(value)
    if name in _FLAGS:
        return bool(value)
    return tuple(value) if name == "milestones" else value
