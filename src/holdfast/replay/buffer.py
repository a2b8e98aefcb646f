"""The episodes kept of earlier tasks: references into datasets, with one budget shared equally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.names import check_name
from holdfast.core.own_code import failure, is_own
from holdfast.replay.schedule import exact
from holdfast.replay.selection import Candidates, Selection, find_selection


@dataclass(frozen=True)
class Kept:
    """What is kept of one task. `episodes` are ranked: shrinking drops from the end, or those that are needed least.

    `losses` are the episodes' losses at the end of their own stage, if the selection compares later ones with them.
    `fingerprint` and `episodes` refer to the dataset that was learned. `copy` is the fingerprint of the run's own copy,
    if it has one; the copy holds exactly these episodes, in this order.
    """

    task: str
    fingerprint: str
    total: int
    episodes: tuple[int, ...]
    copy: str | None = None
    losses: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_name(self.task, "Task in the buffer")  # folders are named after it
        if self.losses is not None and len(self.losses) != len(self.episodes):
            raise HoldfastError(
                f"Task {self.task!r} in the buffer has {len(self.losses)} losses of {len(self.episodes)} episodes."
            )

    @property
    def places(self) -> tuple[int, ...]:
        """Episode numbers in the dataset or copy that they are read from."""
        return self.episodes if self.copy is None else tuple(range(len(self.episodes)))

    def shrunk(self, count: int, rises: np.ndarray | None = None) -> Kept:
        """The first `count` episodes, or those whose loss has risen most; in the same order."""
        chosen = range(len(self.episodes)) if rises is None else np.argsort(-rises, kind="stable").tolist()
        places = sorted(chosen[:count])
        losses = None if self.losses is None else tuple(self.losses[p] for p in places)
        return replace(self, episodes=tuple(self.episodes[p] for p in places), losses=losses)


@dataclass(frozen=True)
class Buffer:
    """Immutable: every stage makes a new one, so a repeated stage starts from the same buffer."""

    ratio: float
    tasks: tuple[Kept, ...] = ()

    def after_stage(
        self, candidates: Candidates, fingerprint: str, selection: str, rises: Mapping[str, np.ndarray] | None = None
    ) -> Buffer:
        """Shrink what is kept of earlier tasks and add the one just learned, so that the budget holds again.

        Args:
            candidates: The episodes of the task just learned.
            fingerprint: Of its dataset.
            selection: Which of them are kept.
            rises: How much the loss of every kept episode of a task has risen since its stage, by task: those that rose
                least are dropped. Without it the last ones are.
        """
        chosen, total = find_selection(selection), len(candidates.lengths)
        stages = len(self.tasks) + 1
        earlier = tuple(k.shrunk(quota(k.total, self.ratio, stages), (rises or {}).get(k.task)) for k in self.tasks)
        ranked = _ranked(chosen, candidates, selection)
        if sorted(ranked) != list(range(total)):
            raise HoldfastError(f"Selection {selection!r} must rank every episode of {candidates.task!r} once.")
        episodes = ranked[: quota(total, self.ratio, stages)]
        losses = None
        if chosen.by_rise:
            assert candidates.scores is not None
            losses = tuple(float(candidates.scores[e]) for e in episodes)
        return Buffer(self.ratio, (*earlier, Kept(candidates.task, fingerprint, total, episodes, losses=losses)))

    def of(self, task: str) -> Kept:
        """What is kept of one task."""
        for kept in self.tasks:
            if kept.task == task:
                return kept
        raise unknown("task in the buffer", task, [k.task for k in self.tasks])


def _ranked(chosen: Selection, candidates: Candidates, name: str) -> tuple[int, ...]:
    """The ranking; a mistake in a user's own selection becomes one line that names its place."""
    try:
        return tuple(int(episode) for episode in chosen.rank(candidates))
    except Exception as error:
        if isinstance(error, HoldfastError) or not is_own(name):
            raise
        place = failure(error, name.rpartition(":")[0])
        raise HoldfastError(f"Selection {name}, ranking {candidates.task!r}, failed{place}") from error


def quota(total: int, ratio: float, stages: int) -> int:
    """Episodes a task of `total` may keep after `stages` stages: max(1, floor(N * rho / k)), in exact arithmetic."""
    return max(1, floor(total * exact(ratio) / stages))
