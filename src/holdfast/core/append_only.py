"""An append-only SQLite file: rows are added and never changed.

It is in WAL mode with synchronous=FULL: once a write has returned, the row survives a kill and a power cut, and several
processes may write. The schema's triggers refuse UPDATE and DELETE from any program.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.core.errors import HoldfastError

_PATIENCE = 60.0  # seconds to wait for another writer


class AppendOnlyFile:
    """The open file. `explained` turns SQLite's errors into HoldfastErrors; `writing` is one transaction."""

    def __init__(self, path: Path, schema: str, version: int) -> None:
        """Open the file, and create its tables if there are none."""
        self._path, self._schema, self._known = path, schema, version
        with self.explained():
            # Autocommit: transactions are explicit, where they are needed.
            self.file = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
            self._begin()
        self.file.row_factory = sqlite3.Row

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
        except sqlite3.Error as error:
            raise HoldfastError(
                f"{self._path} cannot be used: {error}. Check that its folder exists and is writable and that the "
                "disk is not full."
            ) from error

    def _begin(self) -> None:
        if self.file.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self.file.execute("PRAGMA journal_mode = WAL")
        self.file.execute("PRAGMA synchronous = FULL")
        self.file.execute("PRAGMA foreign_keys = ON")  # a correction must refer to an existing row
        found = self._version()
        if found == 0:
            self._create()
        elif found > self._known:
            raise HoldfastError(
                f"{self._path} was written by a newer Holdfast (form {found}; this one reads {self._known}). Update it."
            )

    def _create(self) -> None:
        with self.writing():  # of two processes only one creates the tables
            if self._version() == 0:
                for statement in _statements(self._schema):
                    self.file.execute(statement)
                self.file.execute(f"PRAGMA user_version = {self._known}")

    def _version(self) -> int:
        return int(self.file.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would end the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
