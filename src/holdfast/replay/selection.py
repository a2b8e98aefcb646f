"""Which episodes of a task are worth keeping: a ranking, best first.

The buffer always keeps a prefix of the ranking, so what is kept after a later stage is part of what was kept before,
whatever the selection. A new selection is one function and one line in the table.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Candidates:
    """All episodes of the task that was just learned, and the data a selection may use.

    Frames are numbered across all episodes; episode e is starts[e]..ends[e]-1. `scores` is the mean loss of every
    episode at the end of the stage, for selections that need it.
    """

    task: str
    seed: int
    state: np.ndarray  # (frames, dimensions)
    action: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Frames of every episode."""
        return self.ends - self.starts

    @cached_property
    def summaries(self) -> np.ndarray:
        """One row per episode: mean, deviation, first and last value of every dimension of state and action."""
        rows = []
        for first, last in zip(self.starts, self.ends, strict=True):
            values = np.hstack([self.state[first:last], self.action[first:last]]).astype(np.float64)
            rows.append(np.concatenate([values.mean(0), values.std(0), values[0], values[-1]]))
        return np.stack(rows)


@dataclass(frozen=True)
class Selection:
    """Ranks all episodes, best first. Scores cost a pass over every episode, so they are computed only when needed."""

    rank: Callable[[Candidates], tuple[int, ...]]
    needs_scores: bool = False


def random(candidates: Candidates) -> tuple[int, ...]:
    """A random order, determined by the seed and the task's name."""
    rng = np.random.default_rng([candidates.seed, zlib.crc32(candidates.task.encode())])
    return tuple(int(i) for i in rng.permutation(len(candidates.lengths)))


def diverse(candidates: Candidates) -> tuple[int, ...]:
    """Farthest-point order: starts with the most typical episode, then always takes the one least like those before it.

    Episodes are compared by their summaries, each number scaled by its spread over the task.
    """
    values = candidates.summaries
    spread = values.std(0)
    rounding = 1e-9 * np.abs(values).max() or 1.0  # rounding errors of an idle arm must not count
    points = np.where(spread > rounding, (values - values.mean(0)) / np.maximum(spread, rounding), 0)
    ranked = [int(np.argmin((points**2).sum(1)))]
    distance = ((points - points[ranked[0]]) ** 2).sum(1)
    while len(ranked) < len(points):
        distance[ranked[-1]] = -1  # never chosen twice, even if all are equal
        ranked.append(int(np.argmax(distance)))
        apart = ((points - points[ranked[-1]]) ** 2).sum(1)
        distance = np.where(distance < 0, distance, np.minimum(distance, apart))
    return tuple(ranked)


def hard(candidates: Candidates) -> tuple[int, ...]:
    """The episodes with the highest loss first."""
    assert candidates.scores is not None
    return tuple(int(i) for i in np.argsort(-candidates.scores, kind="stable"))


SELECTIONS: dict[str, Selection] = {
    "random": Selection(random),
    "diverse": Selection(diverse),
    "hard": Selection(hard, needs_scores=True),
}
