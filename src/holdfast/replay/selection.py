"""Which episodes of a task are worth keeping: a ranking, best first.

The buffer keeps a prefix of the ranking, and later only drops from what it kept. So what is kept after a later stage is
part of what was kept before, whatever the selection. A new selection is one function: of the user's own in a file, or
here with a line in the table.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.own_code import is_own, load_own, name_own

POINTS = 32  # of a trajectory, when episodes of different lengths are compared


@dataclass(frozen=True, eq=False)
class Candidates:
    """All episodes of the task that was just learned, and the data a selection may use.

    Frames are numbered across all episodes; episode e is starts[e]..ends[e]-1. `scores` is the mean loss of every
    episode at the end of the stage, `thumbnails` are its first images, small and grey; both for selections that need
    them.
    """

    task: str
    seed: int
    state: np.ndarray  # (frames, dimensions)
    action: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray | None = None
    thumbnails: np.ndarray | None = None  # (episodes, pixels of all cameras)

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

    @cached_property
    def trajectories(self) -> np.ndarray:
        """One row per episode: its states at `POINTS` equal steps in time, each dimension scaled by its spread."""
        state, rows = _scaled(self.state.astype(np.float64)), []
        for first, end in zip(self.starts, self.ends, strict=True):
            times = np.linspace(first, end - 1, POINTS)
            rows.append([np.interp(times, np.arange(first, end), values) for values in state[first:end].T])
        return np.array(rows).reshape(len(rows), -1)


@dataclass(frozen=True)
class Selection:
    """Ranks all episodes, best first. What costs a pass over every episode is computed only when needed.

    With `by_rise`, later stages drop the kept episodes whose loss has risen least since their own stage, instead of the
    last of the ranking.
    """

    rank: Callable[[Candidates], Sequence[int]]
    needs_scores: bool = False
    needs_thumbnails: bool = False
    by_rise: bool = False


def random(candidates: Candidates) -> tuple[int, ...]:
    """A random order, determined by the seed and the task's name."""
    rng = np.random.default_rng([candidates.seed, zlib.crc32(candidates.task.encode())])
    return tuple(int(i) for i in rng.permutation(len(candidates.lengths)))


def diverse(candidates: Candidates) -> tuple[int, ...]:
    """Farthest-point order: starts with the most typical episode, then always takes the one least like those before it.

    Episodes are compared by their summaries, each number scaled by its spread over the task.
    """
    return _farthest_first(_scaled(candidates.summaries))


def coverage(candidates: Candidates) -> tuple[int, ...]:
    """Farthest-point order of state trajectories and first images: every episode of the task is near a kept one.

    The largest distance from an episode to the nearest of the first k is at most twice the least that any k episodes
    reach (Gonzalez 1985, https://doi.org/10.1016/0304-3975(85)90224-5); Sener and Savarese choose training data so
    (2018, https://arxiv.org/abs/1708.00489). Trajectories and images count equally.
    """
    parts = [candidates.trajectories]
    if candidates.thumbnails is not None:
        parts.append(candidates.thumbnails.astype(np.float64))
    return _farthest_first(np.hstack([_unit_size(part) for part in parts]))


def _scaled(values: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1; a column without spread becomes 0."""
    spread = values.std(0)
    rounding = 1e-9 * np.abs(values).max() or 1.0  # rounding errors of an idle arm must not count
    return np.where(spread > rounding, (values - values.mean(0)) / np.maximum(spread, rounding), 0)


def _unit_size(points: np.ndarray) -> np.ndarray:
    """Points around 0, scaled so that their mean squared distance from it is 1; all 0 if they are all alike."""
    centred = points - points.mean(0)
    size = np.sqrt((centred**2).sum(1).mean())
    return centred / size if size > 1e-9 else np.zeros_like(centred)


def _farthest_first(points: np.ndarray) -> tuple[int, ...]:
    """All points: first the one nearest to the mean, then always the one farthest from those before it."""
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
    "coverage": Selection(coverage, needs_thumbnails=True),
    "hard": Selection(hard, needs_scores=True),
    "surprise": Selection(random, needs_scores=True, by_rise=True),
}


def find_selection(name: str) -> Selection:
    """The selection with this name. Runs the file of a user's own, so the name must be the user's."""
    if is_own(name):
        found = load_own(name, "selection", _is_selection, _ADVICE)
        return found if isinstance(found, Selection) else Selection(found)
    if name not in SELECTIONS:
        raise HoldfastError(
            f"{unknown('--replay.selection', name, SELECTIONS)} For one of your own give file.py:function."
        )
    return SELECTIONS[name]


def name_selection(given: Selection | Callable[[Candidates], Sequence[int]]) -> str:
    """The name of a selection that Python code gives as an object, by which `find_selection` finds it again."""
    rank = given.rank if isinstance(given, Selection) else given
    ours = next((name for name, selection in SELECTIONS.items() if given in (selection, selection.rank)), None)
    return ours or name_own(given, rank.__module__)


def _is_selection(found: object) -> bool:
    return isinstance(found, Selection) or (callable(found) and not isinstance(found, type))


_ADVICE = (
    "A selection is a function that takes Candidates and returns the numbers of all episodes, best first; "
    "docs/memory.md shows one."
)
