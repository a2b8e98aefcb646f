"""Every attempt of a run in one SQLite file, append-only."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from holdfast.records import Matrix, Trial

_JSON = ("milestones", "penalties", "times")
_NAMES = tuple(f.name for f in fields(Trial))


class Trials:
    """The trials of one run."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA journal_mode=WAL")
        columns = ", ".join(f'"{name}"' for name in _NAMES)
        self._file.execute(f"CREATE TABLE IF NOT EXISTS trial (id INTEGER PRIMARY KEY, {columns})")

    def add(self, trial: Trial) -> int:
        """Append one trial and return its number."""
        row = {k: json.dumps(v) if k in _JSON else v for k, v in asdict(trial).items()}
        marks = ", ".join("?" * len(row))
        columns = ", ".join(f'"{name}"' for name in row)
        with self._file:
            cursor = self._file.execute(f"INSERT INTO trial ({columns}) VALUES ({marks})", tuple(row.values()))
        return int(cursor.lastrowid or 0)

    def all(self, task: str | None = None, stage: int | None = None) -> list[Trial]:
        """The trials in the order they were added, of one task or stage if asked."""
        columns = ", ".join(f'"{name}"' for name in _NAMES)
        query = f"SELECT {columns} FROM trial WHERE task = coalesce(?, task) AND stage = coalesce(?, stage) ORDER BY id"
        found = []
        for row in self._file.execute(query, (task, stage)):
            values = {k: json.loads(v) if k in _JSON else v for k, v in zip(_NAMES, row, strict=True)}
            values |= {"milestones": tuple(values["milestones"]), "final": bool(values["final"])}
            found.append(Trial(**values | {"valid": bool(values["valid"])}))
        return found

    def matrix(self, names: Sequence[str]) -> Matrix:
        """Scores of the valid trials by task and stage."""
        cells: dict[tuple[int, int], tuple[float, ...]] = {}
        for trial in self.all():
            if trial.valid and trial.task in names and trial.score is not None:
                key = names.index(trial.task) + 1, trial.stage
                cells[key] = (*cells.get(key, ()), trial.score)
        return Matrix(tuple(names), cells)
