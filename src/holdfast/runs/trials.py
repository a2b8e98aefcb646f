"""All trials of a run in one SQLite file: rows are added, never changed; what was reported as written stays written.

The file is shared: an evaluation, a second one beside it and an operator's console may write at once. At about one
trial a second the wait for the disk costs nothing. A correction is a new row that supersedes an old one, and both can
be read forever.
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
# On disk the hash of the weights is called `policy`, and the protocol stands before the notes, in words: so it was when
# the first runs were evaluated, and so their trials still open and compare.
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
_SAME = (
    "SELECT id FROM trials "
    "WHERE task = ? AND stage = ? AND seed = ? AND source = ? AND policy = ? AND supersedes IS NULL"
)
# Nobody judges two trials of a cell at the same instant: with a time of its own, a trial without a seed is known by it.
_SAID = (
    'SELECT id FROM trials WHERE task = ?1 AND stage = ?2 AND source = ?3 AND operator = ?4 AND "when" = ?5 '
    "AND seed IS NULL AND (?6 IS NULL OR supersedes = ?6)"
)


class Trials(AppendOnlyFile):
    """The trials of one run. Every call is a transaction of its own; other processes see it at once."""

    def __init__(self, path: Path) -> None:
        """Open the file, and make it where there is none."""
        super().__init__(path, _SCHEMA, VERSION)

    def add(self, trial: Trial, supersedes: int | None = None) -> int:
        """Write a trial and return its number; one that is there already keeps its number and is not written again.

        A trial of an operator is there already when one of the same cell, operator and time is.

        Args:
            trial: What happened. Without a time of its own it gets the present one.
            supersedes: Number of the trial that this one corrects.
        """
        if trial.valid and trial.score is None:
            raise HoldfastError(
                f"A trial of {trial.task!r} has no score. Score it with its rubric, or mark it not valid."
            )
        values = [_stored(name, value) for name, value in trial_to_row(trial).items()]
        values[_COLUMNS.index("when")] = trial.when or time.time()
        with self.explained(), self.writing():
            said = (trial.task, trial.stage, trial.source, trial.operator, trial.when, supersedes)
            same = self.file.execute(_SAID, said).fetchone() if trial.seed is None else None
            if same:
                return int(same[0])
            written = self.file.execute(_INSERT, [*values, supersedes]).fetchall()
            if written:
                return int(written[0][0])
            if supersedes is not None:
                raise HoldfastError(f"Trial {supersedes} was corrected already. Correct the correction.")
            key = (trial.task, trial.stage, trial.seed, trial.source, trial.weights)
            return int(self.file.execute(_SAME, key).fetchone()[0])

    def numbered(self, task: str | None = None, stage: int | None = None) -> dict[int, Trial]:
        """The trials as they stand, corrections in the place of what they correct, by number."""
        query = "SELECT * FROM trials t WHERE NOT EXISTS (SELECT 1 FROM trials c WHERE c.supersedes = t.id)"
        wanted = {name: value for name, value in (("task", task), ("stage", stage)) if value is not None}
        query += "".join(f" AND t.{name} = ?" for name in wanted)
        with self.explained():
            rows = self.file.execute(f"{query} ORDER BY t.id", tuple(wanted.values())).fetchall()
        return {row["id"]: trial_from_row({name: _read(name, row[name]) for name in _COLUMNS}) for row in rows}

    def all(self, task: str | None = None, stage: int | None = None) -> list[Trial]:
        """The trials as they stand, in the order in which they were written."""
        return list(self.numbered(task, stage).values())

    def counted(self) -> list[Trial]:
        """The trials that make up the cells: valid, and where a stage was trained anew, of its newest weights."""
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
    """A trial by the names of its columns, as files and exports have them."""
    values = {field.name: getattr(trial, field.name) for field in fields(Trial)}
    said = [str(part) for part in (trial.protocol, trial.notes) if part]
    values |= {"policy": trial.weights, "notes": "; ".join(said)}
    return {name: values[name] for name in _COLUMNS}


def trial_from_row(row: dict[str, Any]) -> Trial:
    """Inverse of `trial_to_row`; columns that are left out have their usual values."""
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
