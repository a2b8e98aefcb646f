"""An append-only SQLite file: rows are added and never changed.

It is in WAL mode with synchronous=FULL: once a write has returned, the row survives a kill and a power cut, and several
processes may write. The schema's triggers refuse UPDATE and DELETE from any program. A new file is put in place with
its tables, so one that is empty or lacks them was damaged: it is refused, never taken for new. So is a file that
has tables, indexes, triggers or views which are not ours: they could drop rows unseen. A file of an earlier form is
brought to the latest one when it is opened; its rows stay as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.core.errors import HoldfastError, say_once
from holdfast.core.files import write_bytes
from holdfast.core.locks import file_lock

_PATIENCE = 60.0  # seconds to wait for another writer
_SMALLEST = 512  # bytes of a database; SQLite takes less for an empty one
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_HELD = ("SQLITE_BUSY", "SQLITE_LOCKED")  # names of errors begin so
LAST_ROW = 2**62  # rows count up from 1; SQLite gives random numbers after one with the largest number of all
type Form = tuple[str, ...]  # SQL statements


class AppendOnlyFile:
    """The open file. `explained` turns SQLite's errors into HoldfastErrors; `writing` is one transaction."""

    def __init__(self, path: Path, *forms: Form) -> None:
        """Open the file, create it if there is none, and bring it to the latest of its forms.

        Args:
            path: The file.
            forms: The statements that make each form of its tables and triggers from the one before it.
        """
        self._path = path
        with self.explained():
            if self._is_new():
                self._create(forms)
            # Autocommit: transactions are explicit, where they are needed.
            self.file = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
            self.file.row_factory = sqlite3.Row
            self.file.text_factory = _decode
            self.file.execute("PRAGMA trusted_schema = OFF")
            form = self._checked_form(forms)
            self._begin()
            self._identity = self._identify()
            if form < len(forms):
                with self.writing():
                    _extend(self.file, self._checked_form(forms), forms)  # another process may have been faster

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: what was read in it still holds when the row is written."""
        if self._identify() != self._identity:
            raise HoldfastError(
                f"{self._path} was deleted or replaced while it was open, so nothing more is written. Put the file "
                "back, or start this command again."
            )
        self.file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.file.execute("ROLLBACK")
            raise
        self.file.execute("COMMIT")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn SQLite's errors into messages for the user."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            name = getattr(error, "sqlite_errorname", "")
            if name in _DAMAGE:
                raise self._damaged(str(error)) from error
            if name.startswith(_HELD):
                raise HoldfastError(
                    f"{self._path} is locked: another process has been writing to it for more than {_PATIENCE:.0f} "
                    "seconds. Wait for it or end it, and start this command again."
                ) from error
            raise HoldfastError(
                f"{self._path} cannot be used: {error}. Check that its folder exists and is writable and that the "
                "disk is not full."
            ) from error

    def next_row(self, table: str) -> int:
        """The number of the next row of a table, inside `writing`; rows beyond `LAST_ROW` are not ours."""
        query = f"SELECT coalesce(max(id), 0) + 1 FROM {table} WHERE id BETWEEN 1 AND {LAST_ROW - 1}"
        number = int(self.file.execute(query).fetchone()[0])
        if number >= LAST_ROW:
            raise self._damaged(f"row {number - 1} of {table} leaves no numbers for others")
        return number

    def set_aside(self, number: int, why: object) -> None:
        """Say, once, that a row is not used. It stays in the file."""
        say_once(f"holdfast: {self._path}: row {number} is set aside and stays in the file. {why}")

    def _identify(self) -> tuple[int, int] | None:
        """Device and number of the file that the path names now: rows written to a deleted file would be lost."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _is_new(self) -> bool:
        """Whether there is no file yet. SQLite would take one that was cut for new, and delete the log beside it."""
        log = self._path.with_name(f"{self._path.name}-wal")
        has_log = log.exists()  # before the file: another process may create both at this moment
        if self._path.exists():
            size = self._path.stat().st_size
            if size < _SMALLEST:
                raise self._damaged(f"it has only {size} bytes")
            return False
        if has_log:
            raise self._damaged(f"it is missing, but {log.name} is there")
        return True

    def _create(self, forms: Sequence[Form]) -> None:
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self._path.parent}")
        lock = self._path.with_name(f".{self._path.name}.lock")
        with file_lock(lock), closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
            if not self._path.exists():  # else another process was faster
                _extend(new, 0, forms)
                write_bytes(self._path, new.serialize())
            lock.unlink(missing_ok=True)

    def _begin(self) -> None:
        if self.file.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self.file.execute("PRAGMA journal_mode = WAL")
        self.file.execute("PRAGMA synchronous = FULL")
        self.file.execute("PRAGMA foreign_keys = ON")  # a correction must refer to an existing row

    def _checked_form(self, forms: Sequence[Form]) -> int:
        """The number of the file's form, whose tables and triggers it must have."""
        self.file.execute("SAVEPOINT look")  # number and tables at one moment
        form, found = int(self.file.execute("PRAGMA user_version").fetchone()[0]), _definitions(self.file)
        self.file.execute("RELEASE look")
        if form < 1:
            raise self._damaged("it has no tables")
        if form > len(forms):
            raise HoldfastError(
                f"{self._path} was written by a newer Holdfast (form {form}; this one reads {len(forms)}). Update it."
            )
        needed = _defined(forms[:form])
        for kind, name, _ in sorted(found - needed):
            raise self._damaged(f"its {kind} {name!r} was added or changed by another program")
        for kind, name, _ in sorted(needed - found):
            if kind != "trigger":  # our triggers stop other programs only
                raise self._damaged(f"its {kind} {name!r} is missing")
        return form

    def _damaged(self, what: str) -> HoldfastError:
        name = self._path.name
        return HoldfastError(
            f"{self._path} is damaged: {what}. Restore it from a backup. To start over, move it away together with "
            f"{name}-wal and {name}-shm; `sqlite3 {name} .recover` may find rows in them."
        )


def _extend(file: sqlite3.Connection, form: int, forms: Sequence[Form]) -> None:
    """Bring a file from one of its forms to the last."""
    for statement in chain(*forms[form:]):
        file.execute(statement)
    file.execute(f"PRAGMA user_version = {len(forms)}")


def _defined(forms: Sequence[Form]) -> set[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as new:
        _extend(new, 0, forms)
        return _definitions(new)


def _definitions(file: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Kind, name and SQL of every table, index, trigger and view of a database."""
    rows = file.execute("SELECT type, name, sql FROM sqlite_schema")
    return {(str(kind), str(name), " ".join(str(sql).split())) for kind, name, sql in rows}


def _decode(text: bytes) -> str:
    """Any bytes as text, so that a row that is not UTF-8 can be read and set aside."""
    return text.decode(errors="surrogateescape")
