"""heldout.json: scores on held-out demonstrations, `{"tasks": [...], "cells": {"i,j": [score of each episode]}}`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import read_content
from holdfast.core.records import Matrix


def write_scores(file: Path, matrix: Matrix) -> None:
    """Write the scores of task i after stage j, both from 1."""
    cells = {f"{i},{j}": list(scores) for (i, j), scores in matrix.cells.items()}
    write_text(file, json.dumps({"tasks": list(matrix.tasks), "cells": cells}, indent=1))


def read_scores(file: Path, names: Sequence[str]) -> Matrix:
    """Read the scores, which must be of these tasks."""
    content = read_content(file)
    try:
        if content["tasks"] != list(names):
            raise HoldfastError(f"{file} has the tasks {content['tasks']}, the run has {list(names)}. Evaluate again.")
        cells = {_cell(key): _scores(scores) for key, scores in content["cells"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HoldfastError(f"{file} cannot be read ({error}). Delete it and evaluate again.") from None
    return Matrix(tuple(names), cells)


def _cell(key: str) -> tuple[int, int]:
    task, stage = key.split(",")
    return int(task), int(stage)


def _scores(scores: object) -> tuple[float, ...]:
    if not isinstance(scores, list) or not all(type(score) in (int, float) for score in scores):
        raise ValueError(f"scores must be a list of numbers, got {str(scores)[:80]!r}")
    return tuple(scores)
