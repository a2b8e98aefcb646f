"""The episodes kept of earlier tasks: references into datasets, with one budget shared equally."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import check_name
from holdfast.replay.schedule import exact
from holdfast.replay.selection import SELECTIONS, Candidates


@dataclass(frozen=True)
class Kept:
    """What is kept of one task. `episodes` are ranked: shrinking drops from the end.

    `fingerprint` and `episodes` refer to the dataset that was learned. `copy` is the fingerprint of the run's own copy,
    if it has one; the copy holds exactly these episodes, in this order.
    """

    task: str
    fingerprint: str
    total: int
    episodes: tuple[int, ...]
    copy: str | None = None

    def __post_init__(self) -> None:
        check_name(self.task, "Task in the buffer")  # folders are named after it

    @property
    def places(self) -> tuple[int, ...]:
        """Episode numbers in the dataset or copy that they are read from."""
        return self.episodes if self.copy is None else tuple(range(len(self.episodes)))


@dataclass(frozen=True)
class Buffer:
    """Immutable: every stage makes a new one, so a repeated stage starts from the same buffer."""

    ratio: float
    tasks: tuple[Kept, ...] = ()

    def after_stage(self, candidates: Candidates, fingerprint: str, selection: str) -> Buffer:
        """Shrink what is kept of earlier tasks and add the one just learned, so that the budget holds again."""
        if selection not in SELECTIONS:
            raise unknown("selection", selection, SELECTIONS)
        stages = len(self.tasks) + 1
        earlier = tuple(
            replace(kept, episodes=kept.episodes[: quota(kept.total, self.ratio, stages)]) for kept in self.tasks
        )
        ranked, total = SELECTIONS[selection].rank(candidates), len(candidates.lengths)
        if sorted(ranked) != list(range(total)):
            raise HoldfastError(f"Selection {selection!r} must rank every episode of {candidates.task!r} once.")
        added = Kept(candidates.task, fingerprint, total, ranked[: quota(total, self.ratio, stages)])
        return Buffer(self.ratio, (*earlier, added))

    def of(self, task: str) -> Kept:
        """What is kept of one task."""
        for kept in self.tasks:
            if kept.task == task:
                return kept
        raise unknown("task in the buffer", task, [k.task for k in self.tasks])


def quota(total: int, ratio: float, stages: int) -> int:
    """Episodes a task of `total` may keep after `stages` stages: max(1, floor(N * rho / k)), in exact arithmetic."""
    return max(1, floor(total * exact(ratio) / stages))
