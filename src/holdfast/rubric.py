"""The score of a trial: milestones minus penalties, not below 0, scaled to 100.

An arena's automatic judge is bound by `needs`: a milestone counts only if those it needs count too. An operator is not:
each milestone that a person gave is a point, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import OPERATOR, Reached, Task, Trial

_NO_PENALTIES: Mapping[str, int] = MappingProxyType({})


def awarded(task: Task, milestones: Iterable[str], final: bool = True, *, by_operator: bool = False) -> tuple[str, ...]:
    """The milestones that earn a point, in the rubric's order.

    Full score requires the task's final condition: without it the last milestone is withheld.

    Args:
        task: The task, with its rubric.
        milestones: Names of the milestones reached.
        final: Whether the task's final condition held at the end.
        by_operator: Whether a person gave the milestones, so that `needs` do not bind.
    """
    if not task.milestones:
        raise HoldfastError(f"Task {task.name!r} has no milestones, so its trials cannot be scored. Add some to it.")
    names = [milestone.name for milestone in task.milestones]
    reached = set(milestones)
    for name in sorted(reached - set(names)):
        raise unknown(f"milestone of task {task.name!r}", name, names)
    counted: list[str] = []
    for milestone in task.milestones:  # needs refer to earlier milestones, so one pass is enough
        if milestone.name in reached and (by_operator or all(need in counted for need in milestone.needs)):
            counted.append(milestone.name)
    return tuple(name for name in counted if final or name != names[-1])


def score(
    task: Task,
    milestones: Iterable[str],
    penalties: Mapping[str, int] = _NO_PENALTIES,
    final: bool = True,
    *,
    by_operator: bool = False,
) -> float:
    """Score of one trial, 0 to 100.

    Args:
        task: The task, with its rubric.
        milestones: Names of the milestones reached.
        penalties: How many times each penalty was given; more than its `most` counts as `most`.
        final: Whether the task's final condition held at the end.
        by_operator: Whether a person gave the milestones, so that `needs` do not bind.
    """
    points = len(awarded(task, milestones, final, by_operator=by_operator)) - _deductions(task, penalties)
    return max(0.0, points) / len(task.milestones) * 100


def score_trial(task: Task, trial: Trial) -> float:
    """Score of a recorded trial of `task`, 0 to 100, by the rule for its judge."""
    if trial.task != task.name:
        raise HoldfastError(f"A trial of task {trial.task!r} cannot be scored with the rubric of {task.name!r}.")
    by_operator = trial.source == OPERATOR
    return score(task, trial.milestones, trial.penalties, trial.final, by_operator=by_operator)


def score_reached(task: Task, reached: Reached) -> float:
    """Score of an arena's episode, 0 to 100; a task without milestones is scored by success alone."""
    if not task.milestones:
        return 100.0 if reached.final else 0.0
    return score(task, reached.milestones, reached.penalties, reached.final)


def _deductions(task: Task, penalties: Mapping[str, int]) -> float:
    known = {penalty.name: penalty for penalty in task.penalties}
    for name, count in penalties.items():
        if name not in known:
            raise unknown(f"penalty of task {task.name!r}", name, known)
        if type(count) is not int or count < 0:
            raise HoldfastError(
                f"Penalty {name!r} of task {task.name!r} was given {count!r} times; a count is a whole number from 0."
            )
    return sum(known[name].value * min(count, known[name].most) for name, count in penalties.items())
