"""Score sheets as a list of events: every tick is written at once, and no event is ever changed.

A sheet is one operator's record of one attempt. Its state is a fold over its events, so a page that is reloaded after a
crash of the server or the tablet shows exactly the same sheet. Undo and withdrawal are further events. Events pass one
check before they are written and when they are read; a row that does not pass is set aside and named.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from holdfast.console.tickets import TicketKey
from holdfast.core import outside
from holdfast.core.append_only import LAST_ROW, AppendOnlyFile
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import from_json, to_json
from holdfast.core.records import Task, Trial
from holdfast.runs.trials import trial_from_row

type Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16,64}$")]
type Ticket = Annotated[str, StringConstraints(min_length=1, max_length=64)]
type Operator = Annotated[  # a name without control characters; what looks the same is the same
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$"),
    BeforeValidator(lambda name: _as_seen(name) if isinstance(name, str) else name),
]
type Text = Annotated[str, StringConstraints(max_length=2000)]
type Seconds = Annotated[float, Field(ge=0, lt=1e6)]
type Count = Annotated[int, Field(ge=0, lt=1e6)]
type UnixTime = Annotated[float, Field(ge=0, lt=1e11)]


@dataclass(frozen=True)
class MilestoneMark:
    """A milestone ticked or unticked, `at` seconds from the start."""

    name: Text
    on: bool
    at: Seconds | None = None


@dataclass(frozen=True)
class PenaltyMark:
    """How often a penalty is given."""

    name: Text
    count: Count


@dataclass(frozen=True)
class Judgement:
    """What a submission or withdrawal stores: a trial as its columns, which is written if it `counts`."""

    trial: dict[str, Any]
    counts: bool


MARKS: dict[str, Any] = {
    "milestone": MilestoneMark, "penalty": PenaltyMark, "final": bool, "invalid": Text, "note": Text, "clock": Seconds,
}  # fmt: skip
VERDICTS = ("submit", "withdraw")
_VALUES = {
    **MARKS, "open": NoneType, "release": NoneType, "undo": NoneType, "submit": Judgement, "withdraw": Judgement
}  # fmt: skip
_EVENTS = (
    """CREATE TABLE events (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, ticket TEXT NOT NULL, operator TEXT NOT NULL,
    kind TEXT NOT NULL, value TEXT NOT NULL, "when" REAL NOT NULL
)""",
    "CREATE TRIGGER no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END",
)
# The first form of the file had no secret.
_SECRET = (
    "CREATE TABLE secret (value TEXT NOT NULL)",
    "CREATE TRIGGER same_secret BEFORE UPDATE ON secret BEGIN SELECT RAISE(ABORT, 'never changed'); END",
    "CREATE TRIGGER kept_secret BEFORE DELETE ON secret BEGIN SELECT RAISE(ABORT, 'never deleted'); END",
)
_NEW_KEY = (  # as TicketKey reads it: the secret, and the last row that was written without one
    f"INSERT INTO secret SELECT '{{secret}} ' || coalesce(max(id), 0) FROM events WHERE id BETWEEN 1 AND {LAST_ROW - 1}"
)
_INSERT = (
    'INSERT INTO events (id, key, ticket, operator, kind, value, "when") VALUES (?, ?, ?, ?, ?, ?, ?) '
    "ON CONFLICT DO NOTHING RETURNING id"
)


@dataclass(frozen=True)
class Event:
    """One event of a sheet; `value` is as its kind has it."""

    key: Key
    ticket: Ticket
    operator: Operator
    kind: str
    value: Any
    when: UnixTime


@dataclass(frozen=True)
class Mark:
    """One tick that was not undone: its button, its value, and its row in the file."""

    kind: str
    value: Any
    row: int


@dataclass(frozen=True)
class Verdict:
    """A submission or withdrawal of a sheet, with its trial; the trial is written if it `counts`."""

    trial: Trial
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

    def take(self, event: Event, row: int) -> None:
        """Apply one event, or refuse it with an error and stay as it is."""
        if event.kind == "open":
            self.state, self.opened = "open", event.when
        elif event.kind == "release":
            self.state = "released"
        elif event.kind == "undo":
            del self.marks[-1:]
        elif event.kind in VERDICTS:
            trial, withdrawn = trial_from_row(event.value.trial), event.kind == "withdraw"
            self.verdicts.append(Verdict(trial, event.value.counts, withdrawn, event.when))
            self.state = "open" if withdrawn else "submitted"
        else:
            self.marks.append(Mark(event.kind, event.value, row))
        self.touched = event.when

    @property
    def stands(self) -> Verdict | None:
        """The verdict, while the sheet is submitted."""
        return self.verdicts[-1] if self.state == "submitted" else None

    @property
    def milestones(self) -> tuple[str, ...]:
        """Milestones ticked, in the order of their last tick."""
        return tuple(name for name, mark in self._last("milestone").items() if mark.on)

    @property
    def times(self) -> dict[str, float]:
        """Seconds from the start at which milestones were ticked, if a clock or a video was running."""
        return {name: mark.at for name, mark in self._last("milestone").items() if mark.on and mark.at is not None}

    @property
    def penalties(self) -> dict[str, int]:
        """How often each penalty was given."""
        return {name: mark.count for name, mark in self._last("penalty").items() if mark.count}

    def said(self, kind: str, default: Any) -> Any:
        """The value of the last mark of a kind without names."""
        return next((mark.value for mark in reversed(self.marks) if mark.kind == kind), default)

    def _last(self, kind: str) -> dict[str, Any]:
        return {mark.value.name: mark.value for mark in self.marks if mark.kind == kind}


class Sheets(AppendOnlyFile):
    """All sheets of one run, in `scoring.sqlite`."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Open the file, or create it."""
        super().__init__(path, _EVENTS, (*_SECRET, _NEW_KEY.format(secret=secrets.token_hex())))
        self._clock = clock
        self.key = self._read_key()
        self._seen = 0
        self._sheets: dict[str, dict[str, Sheet]] = {}  # by ticket, then by operator
        self.refresh()

    def _read_key(self) -> TicketKey:
        with self.explained():
            stored = [row["value"] for row in self.file.execute("SELECT value FROM secret LIMIT 2")]
        key = TicketKey.parse(stored[0]) if len(stored) == 1 else None
        if key is None:
            raise self._damaged("it needs one secret, as it was made")
        return key

    def refresh(self) -> None:
        """Apply the events written since the last call, by any process."""
        with self.explained():
            rows = self.file.execute("SELECT * FROM events WHERE id > ? ORDER BY id", (self._seen,)).fetchall()
        for row in rows:
            if row["id"] >= LAST_ROW:
                self.set_aside(row["id"], "Its number is not one of ours.")
                break
            self._seen = row["id"]
            try:
                event = _read(row)
                self.of(self.key.of_row(event.ticket, self._seen), event.operator).take(event, self._seen)
            except HoldfastError as error:
                self.set_aside(self._seen, error)

    def of(self, ticket: str, operator: str) -> Sheet:
        """The sheet of an operator for an attempt; empty if there are no events yet."""
        return self._sheets.setdefault(ticket, {}).setdefault(operator, Sheet(ticket, operator))

    def about(self, ticket: str) -> list[Sheet]:
        """All sheets of an attempt."""
        return list(self._sheets.get(ticket, {}).values())

    def begun(self, ticket: str) -> bool:
        """Whether anybody has opened a sheet for an attempt."""
        return any(sheet.touched for sheet in self.about(ticket))

    def all(self) -> list[Sheet]:
        """All sheets of all operators."""
        return [sheet for by in self._sheets.values() for sheet in by.values()]

    def add(self, key: str, ticket: str, operator: str, kind: str, value: Any) -> None:
        """Write an event inside `writing`; one with a known key was sent twice and is not written again."""
        event = _checked({"key": key, "ticket": ticket, "operator": operator, "kind": kind, "value": to_json(value),
                          "when": self._clock()})  # fmt: skip
        number = self.next_row("events")
        row = (number, event.key, event.ticket, event.operator, event.kind, as_stored(event.value), event.when)
        self.file.execute(_INSERT, row).fetchall()

    def stored(self, key: str) -> tuple[Any, ...] | None:
        """Ticket, operator, kind and value of the event with this key, if one was written already."""
        with self.explained():
            row = self.file.execute("SELECT ticket, operator, kind, value FROM events WHERE key = ?", (key,)).fetchone()
        return None if row is None else tuple(row)


def as_stored(value: Any) -> str:
    """The value of an event as its row has it."""
    return json.dumps(to_json(value))


def _as_seen(name: str) -> str:
    """A name in composed form, without characters of no width."""
    return "".join(letter for letter in unicodedata.normalize("NFC", name) if unicodedata.category(letter) != "Cf")


def checked_value(kind: str, value: Any) -> Any:
    """The value of an event as its kind has it."""
    if kind not in _VALUES:
        raise unknown("event kind", kind[:20], _VALUES)
    what = f"The value of {kind!r}"
    return from_json(_VALUES[kind], outside.check(value, what), what)


def check_rubric(task: Task, kind: str, value: Any) -> None:
    """Refuse marks that are not in the task's rubric."""
    if kind == "milestone" and value.name not in (names := [m.name for m in task.milestones]):
        raise unknown("milestone", value.name[:80], names)
    if kind == "penalty":
        most = {penalty.name: penalty.most for penalty in task.penalties}
        if value.name not in most:
            raise unknown("penalty", value.name[:80], most)
        if value.count > most[value.name]:
            raise HoldfastError(f"Penalty {value.name!r} is given at most {most[value.name]} times, got {value.count}.")


def counted(task: Task, sheet: Sheet) -> tuple[tuple[str, ...], dict[str, int]]:
    """The milestones and penalties of a sheet that are in the rubric, in its order."""
    reached = tuple(milestone.name for milestone in task.milestones if milestone.name in sheet.milestones)
    given = sheet.penalties
    return reached, {penalty.name: given[penalty.name] for penalty in task.penalties if penalty.name in given}


def _checked(content: dict[str, Any]) -> Event:
    event = from_json(Event, outside.check(content, "An event"), "An event")
    return replace(event, value=checked_value(event.kind, event.value))


def _read(row: sqlite3.Row) -> Event:
    columns = {name: row[name] for name in ("key", "ticket", "operator", "kind", "when")}
    value = outside.parse_json(row["value"], "Its value") if isinstance(row["value"], str) else row["value"]
    return _checked({**columns, "value": value})
