"""Sources of trials: an arena by its name, the operators, or what an import names. Their scores are never averaged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import OPERATOR, Matrix, Trial

UNKNOWN = "unknown"  # the source of trials that name none


def by_source(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """The trials of every source, operators last."""
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.source or UNKNOWN, []).append(trial)
    return {source: found[source] for source in sorted(found, key=lambda source: (source == OPERATOR, source))}


def choose_source(found: Collection[str], asked: str | None, what: str, own: str = "") -> str:
    """The source to use where there can be only one: the one asked for, else `own` if it is there, else the only one.

    Args:
        found: The sources that there are; with none, the result is empty.
        asked: The value of --source.
        what: What has them, for errors.
        own: The source that is taken unless another one is asked for.
    """
    if asked is not None:
        if asked not in found:
            raise unknown(f"source of the trials in {what}", asked, found)
        return asked
    if own in found:
        return own
    if len(found) > 1:
        raise HoldfastError(
            f"{what} has trials of {len(found)} sources, which are never averaged: {', '.join(found)}. Choose one "
            f"with --source, like --source={next(iter(found))}."
        )
    return next(iter(found), "")


def matrix_of(names: Sequence[str], trials: Iterable[Trial]) -> Matrix:
    """The scores of one source's trials by task and stage, as `names` number the tasks."""
    cells: dict[tuple[int, int], list[float]] = {}
    for trial in trials:
        if trial.task not in names:
            raise unknown("task of the run in its trials", trial.task, names)
        if trial.score is not None:
            cells.setdefault((names.index(trial.task) + 1, trial.stage), []).append(trial.score)
    return Matrix(tuple(names), {key: tuple(cells[key]) for key in sorted(cells)})
