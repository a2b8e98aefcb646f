"""Which frames make up the batch of a step: a pure function of seed, stage, step and rank.

Nothing is remembered between steps, so a resumed run, a run on more ranks and a run that was never stopped draw the
same frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.core.errors import HoldfastError


@dataclass(frozen=True)
class Pool:
    """Frames of one source that may be drawn, and the pool's share of a batch."""

    row: int  # which source of the run
    frames: np.ndarray
    weight: float


@dataclass(frozen=True)
class Draw:
    """The frames of one step: `frames[i]` is of source `rows[i]`; `replayed` rows of the batch are from the buffer."""

    rows: np.ndarray
    frames: np.ndarray
    replayed: int


@dataclass(frozen=True)
class Sampler:
    """The sampling rule of one stage. `replayed(step)` says how many rows of a step's batch come from the buffer.

    `shares(step)` are the shares of the replayed pools where they change during the stage, instead of their weights.
    """

    seed: int
    stage: int
    steps: int
    batch_size: int
    current: tuple[Pool, ...]
    replay: tuple[Pool, ...] = ()
    replayed: Callable[[int], int] = lambda step: 0
    shares: Callable[[int], np.ndarray] | None = None

    def draw(self, step: int, rank: int = 0, world: int = 1) -> Draw:
        """Frames of this rank's part of the batch of `step`."""
        if self.batch_size % world:
            raise HoldfastError(f"A batch of {self.batch_size} cannot be dealt to {world} ranks equally.")
        old = self.replayed(step) if self.replay else 0
        rng = np.random.default_rng([self.seed, self.stage, step, 1])
        drawn = [pools.draw(n, rng) for pools, n in self._parts(old, step)]
        rows, frames = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        if len(drawn) > 1:  # so that any slice of the batch (a rank's, a micro-batch's) mixes old and new
            order = rng.permutation(self.batch_size)
            rows, frames = rows[order], frames[order]
        own = slice(rank * self.batch_size // world, (rank + 1) * self.batch_size // world)
        return Draw(rows[own], frames[own], old)

    def _parts(self, old: int, step: int) -> list[tuple[_Pools, int]]:
        """New and old pools, each with the number of its rows."""
        new = [(self._new, self.batch_size - old)] if old < self.batch_size else []
        if not old:
            return new
        return [*new, (self._old.shared(self.shares(step)) if self.shares else self._old, old)]

    @cached_property
    def _new(self) -> _Pools:
        return _Pools(self.current)

    @cached_property
    def _old(self) -> _Pools:
        return _Pools(self.replay)


class _Pools:
    """Several pools laid end to end, so that a batch is drawn from all of them at once."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._edges = np.cumsum([p.weight for p in pools])
        self._rows = np.array([p.row for p in pools])
        self._sizes = np.array([len(p.frames) for p in pools])
        self._frames = np.concatenate([p.frames for p in pools])

    def shared(self, weights: np.ndarray) -> _Pools:
        """The same pools with other weights."""
        other = copy(self)
        other._edges = np.cumsum(weights)
        return other

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Systematic sampling over pools (each gets its share of the batch to within one), uniform within a pool."""
        marks = (rng.random() + np.arange(count)) / count * self._edges[-1]
        chosen = np.minimum(np.searchsorted(self._edges, marks, side="right"), len(self._rows) - 1)
        within = (rng.random(count) * self._sizes[chosen]).astype(np.int64)
        frames = self._frames[(np.cumsum(self._sizes) - self._sizes)[chosen] + within]
        # Shuffled, so that any slice of the batch (a rank's, a micro-batch's) mixes the tasks too.
        order = rng.permutation(count)
        return self._rows[chosen][order], frames[order]
