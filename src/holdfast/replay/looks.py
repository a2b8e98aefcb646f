"""How much earlier tasks have been forgotten in a stage so far, and what follows for its replay.

One kept episode of every earlier task is set aside: it is not replayed, and its loss is measured at the stage's start
and in regular intervals. These looks are part of the training state, and all else is pure in them, so ranks and resumed
runs agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.data.loader import AHEAD
from holdfast.replay.buffer import Kept


@dataclass(frozen=True)
class Look:
    """The losses of the watched episodes after `step` steps of a stage, by task."""

    step: int
    losses: dict[str, float]


def is_watched(kept: Kept) -> bool:
    """Whether an episode of a task is set aside and watched: the first of the ranking, if it is not the only one.

    The first stays in the buffer until the end, unless a selection drops by rise; so it is never replayed.
    """
    return len(kept.episodes) > 1


def replayed(kept: Kept) -> tuple[int, ...]:
    """The other episodes, by their number in the dataset or copy that they are read from."""
    return kept.places[1:] if is_watched(kept) else kept.places


def check_looks(looks: Sequence[Look], step: int, origin: object) -> None:
    """Raise an error unless looks read from a file are in order, not after `step`, and all of the same tasks."""
    steps = [look.step for look in looks]
    ordered = steps == sorted(set(steps)) and all(0 <= s <= step for s in steps)
    if not ordered or any(look.losses.keys() != looks[0].losses.keys() for look in looks):
        raise HoldfastError(f"{origin} must hold looks at the same tasks, at steps from 0 to {step} in order.")


def growth(looks: Sequence[Look], step: int) -> dict[str, float]:
    """The factor by which every watched loss has grown since the stage's start, at least 1, as a step may know it.

    Batches are drawn ahead of their step, so a look counts only so many steps later.
    """
    if not looks:
        return {}
    known = [look for look in looks if look.step + AHEAD <= step] or looks[:1]
    first, last = known[0].losses, known[-1].losses
    return {task: max(1.0, last[task] / max(loss, 1e-12)) for task, loss in first.items()}


def shares_by_need(tasks: Sequence[str], grown: Mapping[str, float]) -> np.ndarray:
    """Shares in proportion to the growth of the watched losses; a task that is not watched gets an equal share."""
    weights = np.array([grown.get(task, np.nan) for task in tasks])
    seen = ~np.isnan(weights)
    weights[~seen] = weights[seen].mean() if seen.any() else 1.0
    return weights / weights.sum()


def eased(frequency: float, alarm: float, tasks: Sequence[str], grown: Mapping[str, float]) -> float:
    """The replay frequency that the worst growth calls for: none at 1, all of `frequency` from 1 + `alarm` on.

    It stays at `frequency` if a task is not watched.
    """
    if not grown or any(task not in grown for task in tasks):
        return frequency
    return frequency * min(1.0, (max(grown.values()) - 1) / alarm)
