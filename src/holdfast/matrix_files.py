"""Matrices of scores in JSON and CSV, as `holdfast metrics` reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.outside import parse_csv
from holdfast.core.records import Matrix
from holdfast.metrics import ALONE, MatrixKey, check, name_cell

_MOST_TASKS = 2000
_MOST_TRIALS = 200_000  # resampling takes about 15 us a trial


def matrix_from_json(obj: object) -> Matrix:
    """Build a matrix from `{"tasks": [...], "cells": [[c11], [c12, c22], ...], "baseline": [...]}`.

    Row j of `cells` lists tasks 1..j (or more) after stage j; each entry is a score, a list of trial scores, or
    null where nothing was measured. Later rows and the baseline may be left out.
    """
    if not isinstance(obj, dict):
        raise HoldfastError(f'A matrix is an object {{"tasks": [...], "cells": [...]}}, got {_kind(obj)}.')
    for key in obj:
        if key not in ("tasks", "cells", "baseline"):
            raise unknown("key in the matrix", key, ("tasks", "cells", "baseline"))
    tasks = _task_names(obj.get("tasks"))
    rows = obj.get("cells")
    if not isinstance(rows, list) or not 1 <= len(rows) <= len(tasks):
        raise HoldfastError(f"'cells' must list 1 to {len(tasks)} rows, one per stage, got {_kind(rows)}.")
    cells: dict[MatrixKey, tuple[float, ...]] = {}
    for j, row in enumerate(rows, 1):
        if not isinstance(row, list) or not j <= len(row) <= len(tasks):
            raise HoldfastError(
                f"Row {j} of 'cells' must list {j} to {len(tasks)} scores, those of tasks 1, 2, ... after stage {j}, "
                f"got {_kind(row)}. Write null for a score that was not measured."
            )
        cells |= {(i, j): scores for i, scores in _measured(row, tasks, j)}
    alone = obj.get("baseline")
    if alone is not None and (not isinstance(alone, list) or len(alone) != len(tasks)):
        raise HoldfastError(f"'baseline' must list {len(tasks)} scores or nulls, one per task, got {_kind(alone)}.")
    return _checked(Matrix(tasks, cells, dict(_measured(alone or [], tasks, ALONE))))


def matrix_from_csv(text: str) -> Matrix:
    """Build a matrix from CSV: header `stage,<task>,...`, a row per stage, optionally a row of stage `baseline`.

    An empty field is a score that was not measured.
    """
    rows = [[field.strip() for field in row] for row in parse_csv(text.removeprefix("\ufeff"), "The matrix")]
    rows = [row for row in rows if any(row)]
    if not rows or rows[0][0] != "stage":
        got = repr(",".join(rows[0])) if rows else "an empty file"
        raise HoldfastError(f"A matrix in CSV starts with the line 'stage,<task>,<task>,...', got {got}.")
    tasks = _task_names(rows[0][1:])
    cells: dict[MatrixKey, tuple[float, ...]] = {}
    seen: set[int] = set()
    for stage, *fields in rows[1:]:
        j = _stage_number(stage, len(tasks))
        if j in seen:
            raise HoldfastError(f"Stage {stage!r} has two rows. Keep one.")
        seen.add(j)
        if len(fields) > len(tasks):
            raise HoldfastError(f"The row of stage {stage!r} has {len(fields)} scores for {len(tasks)} tasks.")
        numbers = [_number(field, name_cell(tasks, (i, j))) for i, field in enumerate(fields, 1)]
        cells |= {(i, j): scores for i, scores in _measured(numbers, tasks, j)}
    if not seen - {ALONE}:
        raise HoldfastError("The CSV has no row of a stage. Add one per stage: its number, then the tasks' scores.")
    alone = {i: scores for (i, j), scores in cells.items() if j == ALONE}
    return _checked(Matrix(tasks, {key: s for key, s in cells.items() if key[1] != ALONE}, alone))


def _checked(matrix: Matrix) -> Matrix:
    """The matrix of a file, if it can be computed in reasonable time."""
    trials = sum(len(s) for s in (*matrix.cells.values(), *matrix.baseline.values()) if len(s) > 1)
    if trials > _MOST_TRIALS:
        raise HoldfastError(f"A matrix has at most {_MOST_TRIALS} trials, got {trials}. Give the mean of each cell.")
    check(matrix)
    return matrix


def _task_names(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n and n.isprintable() for n in names):
        raise HoldfastError(f"A matrix needs the names of its tasks, in the stream's order, got {names!r}.")
    if len(names) > _MOST_TASKS:
        raise HoldfastError(f"A matrix has at most {_MOST_TASKS} tasks, got {len(names)}.")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise HoldfastError(f"A matrix names each task once, got {', '.join(twice)} more than once.")
    return tuple(names)


def _measured(entries: Sequence[Any], tasks: Sequence[str], stage: int) -> Iterator[tuple[int, tuple[float, ...]]]:
    """The measured entries of a row, with their task's number."""
    for i, entry in enumerate(entries, 1):
        trials = [] if entry is None else entry if isinstance(entry, list) else [entry]
        for score in trials:
            if isinstance(score, bool) or not isinstance(score, int | float):
                raise HoldfastError(
                    f"{name_cell(tasks, (i, stage))} must be a score, a list of trial scores, or null, got {entry!r}."
                )
        if trials:
            yield i, tuple(trials)


def _stage_number(text: str, stages: int) -> int:
    if text == "baseline":
        return ALONE
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= stages:
        raise HoldfastError(f"A row of the CSV starts with its stage, 1 to {stages}, or 'baseline', got {text!r}.")
    return int(text)


def _number(text: str, place: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise HoldfastError(f"{place} must be a number, or empty where not measured, got {text!r}.") from None


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)
