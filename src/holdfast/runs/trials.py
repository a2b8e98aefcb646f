"""All trials of a run in one append-only SQLite file.

Several evaluations and an operator's console may write at the same time. At about one trial a second, waiting for the
disk costs nothing. A correction is a new row that supersedes an old one; both stay in the file. Every field is checked
before a trial is written; a row that is not a trial, however it came there, is set aside and named.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from holdfast.core import outside
from holdfast.core.append_only import AppendOnlyFile
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json, to_json
from holdfast.core.records import Trial, TrialProtocol

_LONGEST = 10_000  # characters of a text
_LARGEST = 2**63 - 1  # number in SQLite
_LATEST = 9e9  # in Unix time; pandas knows no times after 2262
_ENDLESS = 1e6  # seconds, as for the clock of the scoring page
_JSON = ("milestones", "penalties", "times")
_FLAGS = ("final", "valid")
# On disk the hash of the weights is called `policy`.
_COLUMNS = tuple("policy" if field.name == "weights" else field.name for field in fields(Trial))
_FIRST = (
    """CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL, task TEXT NOT NULL, stage INTEGER NOT NULL,
    source TEXT NOT NULL, seed INTEGER, level TEXT NOT NULL, operator TEXT NOT NULL,
    milestones TEXT NOT NULL, times TEXT NOT NULL, penalties TEXT NOT NULL, final INTEGER NOT NULL,
    seconds REAL NOT NULL, score REAL, video TEXT NOT NULL, policy TEXT NOT NULL, normalization TEXT NOT NULL,
    notes TEXT NOT NULL, valid INTEGER NOT NULL, "when" REAL NOT NULL,
    supersedes INTEGER UNIQUE REFERENCES trials (id)
)""",
    # An evaluation that is started again cannot count a layout twice. Operators have no seed and repeat at will.
    "CREATE UNIQUE INDEX once ON trials (task, stage, seed, source, policy) "
    "WHERE seed IS NOT NULL AND supersedes IS NULL",
    "CREATE TRIGGER no_update BEFORE UPDATE ON trials BEGIN SELECT RAISE(ABORT, 'trials are never changed'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON trials BEGIN SELECT RAISE(ABORT, 'trials are never deleted'); END",
)
# In rows of the first form, where it is NULL, the protocol stands before the notes.
_PROTOCOL = ("ALTER TABLE trials ADD COLUMN protocol TEXT",)
_INSERT = (
    f"INSERT INTO trials (id, {', '.join(f'"{name}"' for name in _COLUMNS)}, supersedes) "
    f"VALUES ({', '.join('?' * (len(_COLUMNS) + 2))}) ON CONFLICT DO NOTHING RETURNING id"
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
        super().__init__(path, _FIRST, _PROTOCOL)
        self._trials: dict[int, Trial | None] = {}  # by row, which never changes; None where it is set aside

    def add(self, trial: Trial, supersedes: int | None = None) -> int:
        """Write a trial and return its number; one that exists already keeps its number and is not written again.

        An operator's trial exists already if there is one of the same cell, operator and time.

        Args:
            trial: The trial. Without a time it gets the current one.
            supersedes: Number of the trial that this one corrects.
        """
        trial = checked(trial)
        with self.explained(), self.writing():
            return self._add(trial, supersedes)

    @contextmanager
    def extending(self, trials: Mapping[str, Trial]) -> Iterator[int]:
        """Write trials, all or none, when the block ends without an error; gives how many are new.

        One that exists already is not written again. One that would be the same trial but says otherwise is an error.

        Args:
            trials: The trials by their origin (a file and a line), which errors name.
        """
        found = {origin: checked(trial) for origin, trial in trials.items()}
        written: dict[int, str] = {}
        with self.explained(), self.writing():
            before = self.file.total_changes
            for origin, trial in found.items():
                earlier = self.file.total_changes
                number = self._add(trial, None)
                if self.file.total_changes > earlier:
                    written[number] = origin
                elif number in written:
                    _check_again(trial, found[written[number]], origin, written[number])
                else:
                    _check_again(trial, self._trial(number), origin, None)
            yield self.file.total_changes - before

    def _add(self, trial: Trial, supersedes: int | None) -> int:
        """Write a checked trial inside `writing`."""
        judged = (trial.task, trial.stage, trial.source, trial.operator, trial.when, supersedes)
        same = self.file.execute(_SAME_TIME, judged).fetchone() if trial.seed is None else None
        if same:
            return int(same[0])
        values = [_stored(name, value) for name, value in trial_to_row(trial).items()]
        values[_COLUMNS.index("when")] = trial.when or time.time()
        written = self.file.execute(_INSERT, [self.next_row("trials"), *values, supersedes]).fetchall()
        if written:
            return int(written[0][0])
        if supersedes is not None:
            raise HoldfastError(f"Trial {supersedes} was corrected already. Correct the correction.")
        key = (trial.task, trial.stage, trial.seed, trial.source, trial.weights)
        return int(self.file.execute(_SAME_SEED, key).fetchone()[0])

    def numbered(self, task: str | None = None, stage: int | None = None) -> dict[int, Trial]:
        """The current trials by number, with corrections in place of what they correct."""
        query = "SELECT t.id FROM trials t WHERE NOT EXISTS (SELECT 1 FROM trials c WHERE c.supersedes = t.id)"
        wanted = {name: value for name, value in (("task", task), ("stage", stage)) if value is not None}
        query += "".join(f" AND t.{name} = ?" for name in wanted)
        with self.explained():
            numbers = [row["id"] for row in self.file.execute(f"{query} ORDER BY t.id", tuple(wanted.values()))]
            found = {number: self._trial(number) for number in numbers}
        return {number: trial for number, trial in found.items() if trial}

    def _trial(self, number: int) -> Trial | None:
        if number not in self._trials:
            row = self.file.execute("SELECT * FROM trials WHERE id = ?", (number,)).fetchone()
            try:
                self._trials[number] = trial_from_row({name: _loaded(name, row[name]) for name in _COLUMNS})
            except HoldfastError as error:
                self._trials[number] = None
                self.set_aside(number, error)
        return self._trials[number]

    def all(self, task: str | None = None, stage: int | None = None) -> list[Trial]:
        """The current trials, in the order in which they were written."""
        return list(self.numbered(task, stage).values())

    def counted(self) -> list[Trial]:
        """The trials that count: valid, and if a stage was trained again, of its newest weights.

        The newest are those that were first tried last: a late score of an old video does not bring old weights back.
        """
        valid = [trial for trial in self.all() if trial.valid]
        query = "SELECT task, stage, policy FROM trials GROUP BY task, stage, policy ORDER BY min(id)"
        with self.explained():
            places = {tuple(row): place for place, row in enumerate(self.file.execute(query))}
        tried = sorted((t for t in valid if t.weights), key=lambda t: places[t.task, t.stage, t.weights])
        newest = {(trial.task, trial.stage): trial.weights for trial in tried}
        return [t for t in valid if t.weights in ("", newest.get((t.task, t.stage), ""))]


def _check_again(trial: Trial, same: Trial | None, origin: str, other: str | None) -> None:
    """Refuse a trial that would be the `same` as one that is stored, or as the one of `other` origin, but is not.

    A layout may be evaluated again, at another time and with a video. Two lines about an operator's trials are two
    attempts even if they are equal.
    """
    where = other or "a stored trial"
    if trial.seed is not None:
        if not same or replace(trial, run="", when=0.0, video="") != replace(same, run="", when=0.0, video=""):
            raise HoldfastError(
                f"{origin}: {where} has the same task, stage, seed, source and policy but says otherwise, and a layout "
                "counts once. Leave the seed of an operator's trial empty, or delete one."
            )
    elif other:
        raise HoldfastError(
            f"{origin}: {where} has the same task, stage, operator and time, by which a trial is known. If these are "
            "two trials, give a finer time (2026-11-15T16:10:02) or the other operator; else delete one line."
        )
    elif not same or replace(trial, run="") != replace(same, run=""):
        raise HoldfastError(
            f"{origin}: {where} has the same task, stage, operator and time but says otherwise, and an import changes "
            "no trial. If this is another one, give a finer time (2026-11-15T16:10:02) or the other operator. To "
            "correct the stored one: --export all, edit the file, move trials.sqlite away, and --import the file."
        )


def trial_to_row(trial: Trial) -> dict[str, Any]:
    """A trial as columns, as in files and exports."""
    values = {field.name: getattr(trial, field.name) for field in fields(Trial)}
    values |= {"policy": trial.weights, "protocol": str(trial.protocol or "")}
    return {name: values[name] for name in _COLUMNS}


def trial_from_row(row: dict[str, Any]) -> Trial:
    """Inverse of `trial_to_row`, but lists are lists; checks every value. Missing columns get their defaults.

    Where there is no column for the protocol, as in the first form, it may stand before the notes.
    """
    values = dict(row)
    if "policy" in values:
        values["weights"] = values.pop("policy")
    text, notes = values.pop("protocol", None), values.get("notes")
    if text is None and isinstance(notes, str):
        words, separator, rest = notes.partition("; ")
        if protocol := TrialProtocol.parse(words) if rest or not separator else None:
            values |= {"protocol": to_json(protocol), "notes": rest}
    elif text:
        values["protocol"] = to_json(_parsed(text))
    return _checked(values)


def checked(trial: Trial) -> Trial:
    """The trial, if it can be stored: every field has its type and range, and text is well-formed Unicode."""
    if trial.valid and trial.score is None:
        raise HoldfastError(f"A trial of {trial.task!r} has no score. Score it with its rubric, or mark it not valid.")
    return _checked(to_json(trial))


def _parsed(text: Any) -> TrialProtocol:
    protocol = TrialProtocol.parse(text) if isinstance(text, str) else None
    if protocol is None:
        raise HoldfastError(
            "A trial cannot be used: its protocol must be like 'horizon 8' or 'rolled out, horizon 8, asked 4 ahead', "
            f"got {str(text)[:80]!r}."
        )
    return protocol


def _checked(values: dict[str, Any]) -> Trial:
    trial = from_json(Trial, outside.check(values, "A trial"), "A trial")
    for name, value in values.items():
        if not _fits(value):
            raise HoldfastError(
                f"A trial cannot be used: {name} must be text of at most {_LONGEST} characters or numbers from 0 to "
                f"{_LARGEST}, got {str(value)[:80]!r}."
            )
    if trial.protocol:
        _parsed(str(trial.protocol))  # else it could not be read again
    if trial.score is not None and trial.score > 100:
        raise HoldfastError(f"A trial cannot be used: its score must be from 0 to 100, got {trial.score:g}.")
    longest = max(trial.seconds, *trial.times.values(), 0.0)
    if longest >= _ENDLESS:
        raise HoldfastError(
            f"A trial cannot be used: its seconds and times must be below {_ENDLESS:,.0f}, got {longest:g}."
        )
    if trial.when >= _LATEST:
        raise HoldfastError(f"A trial cannot be used: its time must be before the year 2255, got {trial.when:g}.")
    return trial


def _fits(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_fits(name) and _fits(item) for name, item in value.items())
    if isinstance(value, list):
        return all(map(_fits, value))
    if isinstance(value, str):
        return len(value) <= _LONGEST
    return value is None or 0 <= value <= _LARGEST


def _stored(name: str, value: Any) -> Any:
    return json.dumps(value) if name in _JSON else value


def _loaded(name: str, value: Any) -> Any:
    if name in _JSON and isinstance(value, str):
        return outside.parse_json(value, f"Its {name}")
    return bool(value) if name in _FLAGS and value in (0, 1) else value
