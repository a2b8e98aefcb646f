"""Score sheets as a list of events: every tick is written at once, and no event is ever changed.

A sheet is one operator's record of one attempt. Its state is a fold over its events, so a page that is reloaded after a
crash of the server or the tablet shows exactly the same sheet. Undo and withdrawal are further events.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.core.append_only import AppendOnlyFile
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import Task

MARKS = ("milestone", "penalty", "final", "invalid", "note", "clock")
_LONGEST = 2000  # characters of a note
_SCHEMA = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, ticket TEXT NOT NULL, operator TEXT NOT NULL,
    kind TEXT NOT NULL, value TEXT NOT NULL, "when" REAL NOT NULL
);
CREATE TRIGGER no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
"""
_INSERT = (
    'INSERT INTO events (key, ticket, operator, kind, value, "when") VALUES (?, ?, ?, ?, ?, ?) '
    "ON CONFLICT DO NOTHING RETURNING id"
)


@dataclass(frozen=True)
class Mark:
    """One tick that was not undone: its button and value."""

    kind: str
    value: Any


@dataclass(frozen=True)
class Verdict:
    """A submission or withdrawal of a sheet, with its trial; the trial is written if it `counts`."""

    trial: dict[str, Any]
    counts: bool
    withdrawn: bool
    when: float


@dataclass
class Sheet:
    """The state of one operator's record of one attempt."""

    ticket: str
    operator: str
    state: str = "released"  # or open, or submitted
    opened: float = 0.0
    touched: float = 0.0
    marks: list[Mark] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def take(self, kind: str, value: Any, when: float) -> None:
        """Apply one event."""
        self.touched = when
        if kind == "open":
            self.state, self.opened = "open", when
        elif kind == "release":
            self.state = "released"
        elif kind == "undo":
            del self.marks[-1:]
        elif kind in ("submit", "withdraw"):
            self.state = "submitted" if kind == "submit" else "open"
            self.verdicts.append(Verdict(value["trial"], value["counts"], kind == "withdraw", when))
        else:
            self.marks.append(Mark(kind, value))

    @property
    def stands(self) -> Verdict | None:
        """The verdict, while the sheet is submitted."""
        return self.verdicts[-1] if self.state == "submitted" else None

    @property
    def milestones(self) -> tuple[str, ...]:
        """Milestones ticked, in the order of their last tick."""
        return tuple(name for name, mark in self._last("milestone").items() if mark["on"])

    @property
    def times(self) -> dict[str, float]:
        """Seconds from the start at which milestones were ticked, if a clock or a video was running."""
        marks = self._last("milestone")
        return {name: mark["at"] for name, mark in marks.items() if mark["on"] and mark.get("at") is not None}

    @property
    def penalties(self) -> dict[str, int]:
        """How often each penalty was given."""
        return {name: mark["count"] for name, mark in self._last("penalty").items() if mark["count"]}

    def said(self, kind: str, default: Any) -> Any:
        """The value of the last mark of a kind without names."""
        return next((mark.value for mark in reversed(self.marks) if mark.kind == kind), default)

    def _last(self, kind: str) -> dict[str, dict[str, Any]]:
        return {mark.value["name"]: mark.value for mark in self.marks if mark.kind == kind}


class Sheets(AppendOnlyFile):
    """All sheets of one run, in `scoring.sqlite`."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Open the file, or create it."""
        super().__init__(path, _SCHEMA, 1)
        self._clock = clock
        self._seen = 0
        self._sheets: dict[str, dict[str, Sheet]] = {}  # by ticket, then by operator
        self.refresh()

    def refresh(self) -> None:
        """Apply the events written since the last call, by any process."""
        with self.explained():
            rows = self.file.execute("SELECT * FROM events WHERE id > ? ORDER BY id", (self._seen,)).fetchall()
        for row in rows:
            self.of(row["ticket"], row["operator"]).take(row["kind"], json.loads(row["value"]), row["when"])
            self._seen = row["id"]

    def of(self, ticket: str, operator: str) -> Sheet:
        """The sheet of an operator for an attempt; empty if there are no events yet."""
        return self._sheets.setdefault(ticket, {}).setdefault(operator, Sheet(ticket, operator))

    def about(self, ticket: str) -> list[Sheet]:
        """All sheets of an attempt."""
        return list(self._sheets.get(ticket, {}).values())

    def all(self) -> list[Sheet]:
        """All sheets of all operators."""
        return [sheet for by in self._sheets.values() for sheet in by.values()]

    def add(self, key: str, ticket: str, operator: str, kind: str, value: Any) -> None:
        """Write an event inside `writing`; one with a known key was sent twice and is not written again."""
        self.file.execute(_INSERT, (key, ticket, operator, kind, json.dumps(value), self._clock())).fetchall()

    def known(self, key: str) -> bool:
        """Whether an event was written already."""
        with self.explained():
            return self.file.execute("SELECT 1 FROM events WHERE key = ?", (key,)).fetchone() is not None


def checked_mark(task: Task, kind: str, value: Any) -> Any:
    """The value of a mark as it is stored; refuses names that are not in the rubric and values of the wrong type."""
    if kind not in MARKS:
        raise unknown("mark", kind, MARKS)
    if kind == "milestone":
        _named(value, kind, [m.name for m in task.milestones], "on", bool)
        at = value.get("at")
        _require(at is None or _seconds(at), "time of a milestone", at)
        return {"name": value["name"], "on": value["on"], "at": at}
    if kind == "penalty":
        _named(value, kind, [p.name for p in task.penalties], "count", int)
        most = next(p.most for p in task.penalties if p.name == value["name"])
        _require(0 <= value["count"] <= most, f"count of penalty {value['name']!r}, 0 to {most}", value["count"])
        return {"name": value["name"], "count": value["count"]}
    if kind == "final":
        _require(type(value) is bool, "final condition, true or false", value)
    elif kind == "clock":
        _require(_seconds(value), "number of seconds", value)
    else:
        _require(isinstance(value, str) and len(value) <= _LONGEST, f"{kind} of at most {_LONGEST} characters", value)
    return value


def _named(value: Any, word: str, names: list[str], key: str, kind: type) -> None:
    _require(isinstance(value, dict) and isinstance(value.get("name"), str), word, value)
    if value["name"] not in names:
        raise unknown(word, value["name"], names)
    _require(type(value.get(key)) is kind, f"{key!r} of a {word}", value.get(key))


def _seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6


def _require(fine: bool, what: str, got: Any) -> None:
    if not fine:
        raise HoldfastError(f"Not a valid {what}: {str(got)[:80]!r}.")
