"""Whether actions are what they are taken for: targets for the state of the same name.

Many datasets give increments the names of the state that they move. A policy that learns actions relative to the state
would subtract a position from an increment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.source import Source
from holdfast.data.lesson import Layout, Lesson, Pairing, pair

type Doubt = Literal["delta", "binary", "far"]

SEEN: dict[Doubt, str] = {
    "delta": "follows the change of the state and not the state, so it looks like an increment or a velocity",
    "binary": "has two values only and is far from the next state, so it looks like a switch",
    "far": "is far from the next state in most frames: check for other units, or another order of the dimensions",
}


def doubtful(source: Source, pairing: Pairing, floor: np.ndarray | None = None) -> dict[int, Doubt]:
    """Action dimensions that do not look like targets for the state they are paired with, and what they look like.

    A state that moves no further than `floor`, by default a hundredth of the farthest, tells nothing.
    """
    if not pairing.paired.any() or len(source.action) < 2:
        return {}
    state = pairing.pose(source.state)
    seen, asked = _range(state), _range(source.action)
    floor = np.full_like(seen, 0.01 * np.nanmax(seen)) if floor is None else floor
    action, before, after = _steps(source, state)
    if not len(action):
        return {}
    far = (np.abs(action - after) > 0.25 * np.fmax(seen, asked)).mean(axis=0) > 0.5
    change, place = _correlation(action, after - before), _correlation(action, after)
    found: dict[int, Doubt] = {}
    for d in np.flatnonzero(pairing.paired & (seen > floor)):
        if change[d] > max(0.5, place[d] + 0.25):
            found[int(d)] = "delta"
        elif far[d]:
            found[int(d)] = "binary" if len(np.unique(action[:, d])) == 2 else "far"
    return found


def refuse_doubtful(lessons: Sequence[Lesson], layout: Layout) -> None:
    """Refuse to learn actions relative to the state that do not look like targets; a declared kind is believed."""
    for lesson in lessons:
        if lesson.embodiment is not None or not layout.relative.any():
            continue
        source = lesson.source
        found = {d: doubt for d, doubt in doubtful(source, lesson.pairing).items() if layout.relative[d]}
        if found:
            names = ", ".join(source.action_names[d] for d in found)
            first = next(iter(found))
            raise HoldfastError(
                f"Dataset {source.dataset}: this policy would learn the actions {names} relative to the state of the "
                f"same name, but {source.action_names[first]} {SEEN[found[first]]}. Nothing was subtracted. Say what "
                'they are: kind = "delta", "velocity" or "binary" in an embodiment file that the stream names, or '
                "--policy.use_relative_actions=false to take all actions as they are; =true if they are targets."
            )


def refuse_unknown_kinds(source: Source, dimensions: Sequence[int]) -> None:
    """Refuse to drop frames where nothing says what becomes of the actions in between.

    Of a target or a switch the last one counts, but increments must be summed and velocities averaged.
    """
    pairing = pair(source)
    with np.errstate(invalid="ignore", over="ignore"):  # of values that the doctor reports
        doubts, safe = doubtful(source, pairing), _last_counts(source, pairing)
    found = [d for d in dimensions if source.state_places[d] < 0 or not safe[d] or doubts.get(d) in ("delta", "far")]
    if found:
        first, doubt = source.action_names[found[0]], doubts.get(found[0])
        why = SEEN[doubt] if doubt else "moves too unlike the state of its name to be taken for its target"
        why = "has no state of its name" if source.state_places[found[0]] < 0 else why
        raise HoldfastError(
            f"it drops frames, and of {', '.join(source.action_names[d] for d in found)} it is not known what the "
            f"actions in between add up to: {first} {why}. Say what kind each action is, in an embodiment file that "
            f'the stream names (embodiment = "robot.toml"): [[dimension]] name = "{first}" arm = "arm" kind = "delta" '
            'lower = -1 upper = 1 step = 0.5. Or kind = "target", "velocity", "binary".'
        )


def _last_counts(source: Source, pairing: Pairing) -> np.ndarray:
    """The action dimensions of which the last one counts, for all that one can see.

    One that never changes beyond rounding, a switch, or one that follows the state: it stays close to it, or moves with
    it and about as far, which increments, small as they are, do not.
    """
    action, _, after = _steps(source, pairing.pose(source.state))
    if not len(action):
        return np.ones(len(pairing.places), dtype=bool)
    moved = _range(action)
    still = moved <= np.finfo(np.float32).eps * moved[np.isfinite(moved)].max(initial=0)
    switch = np.array([len(np.unique(values)) <= 2 for values in action.T])
    place = _correlation(action, after)
    with_it = (place > 0.5) & (place * np.nanstd(action, axis=0) > 0.5 * np.nanstd(after, axis=0))
    close = (np.abs(action - after) < 0.25 * np.abs(after)).mean(axis=0) > 0.5
    return still | switch | with_it | close


def _steps(source: Source, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every action within an episode, with the state before and after it."""
    within = np.ones(max(0, len(state) - 1), dtype=bool)
    within[source.ends[:-1] - 1] = False
    return source.action[:-1][within], state[:-1][within], state[1:][within]


def _range(values: np.ndarray) -> np.ndarray:
    return np.fmax.reduce(values) - np.fmin.reduce(values)


def _correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Pearson's correlation of every dimension; 0 where one of them is constant."""
    one, other = (values.astype(np.float64) - np.nanmean(values, axis=0, dtype=np.float64) for values in (one, other))
    size = np.sqrt(np.nansum(one**2, axis=0) * np.nansum(other**2, axis=0))
    return np.nansum(one * other, axis=0) / np.where(size > 0, size, np.inf)
