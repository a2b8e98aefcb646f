"""Which frames make up the batch of a step: a pure function of seed, stage, step and rank.

Nothing is remembered between steps, so a resumed run, a run on more ranks and a run that was never stopped draw the
same frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.replay.schedule import Coin, is_replay


@dataclass(frozen=True)
class Pool:
    """Frames of one source that may be drawn, and the pool's share of a batch."""

    row: int  # which source of the run
    frames: np.ndarray
    weight: float


@dataclass(frozen=True)
class Draw:
    """The frames of one step: `frames[i]` belongs to source `rows[i]`."""

    rows: np.ndarray
    frames: np.ndarray
    replay: bool


@dataclass(frozen=True)
class Sampler:
    """The sampling rule of one stage."""

    seed: int
    stage: int
    steps: int
    batch_size: int
    current: tuple[Pool, ...]
    replay: tuple[Pool, ...] = ()
    frequency: float = 0.0
    coin: Coin = "plain"

    def draw(self, step: int, rank: int = 0, world: int = 1) -> Draw:
        """Frames of this rank's part of the batch of `step`."""
        if self.batch_size % world:
            raise HoldfastError(f"A batch of {self.batch_size} cannot be dealt to {world} ranks equally.")
        replay = bool(self.replay) and is_replay(self.seed, self.stage, step, self.steps, self.frequency, self.coin)
        rng = np.random.default_rng([self.seed, self.stage, step, 1])
        rows, frames = _draw(self.replay if replay else self.current, self.batch_size, rng)
        return Draw(rows[rank::world], frames[rank::world], replay)


def _draw(pools: Sequence[Pool], count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Systematic sampling over pools (each gets its share of the batch to within one), uniform within a pool."""
    edges = np.cumsum([p.weight for p in pools])
    marks = (rng.random() + np.arange(count)) / count * edges[-1]
    chosen = np.minimum(np.searchsorted(edges, marks, side="right"), len(pools) - 1)
    places = rng.random(count)
    frames = np.array([pools[k].frames[int(u * len(pools[k].frames))] for k, u in zip(chosen, places, strict=True)])
    rows = np.array([pools[k].row for k in chosen])
    # Shuffled, so that any slice of the batch (a rank's, a micro-batch's) mixes the tasks too.
    order = rng.permutation(count)
    return rows[order], frames[order]
