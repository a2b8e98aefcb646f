"""A task as training sees it: its data, instruction and active dimensions; and which frames a policy reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.core.records import Task
from holdfast.data.lerobot.source import ACTION, STATE, Source
from holdfast.embodiments.embodiment import Embodiment, Kind


@dataclass(frozen=True)
class Layout:
    """Which frames around the current one a policy reads, and which action dimensions are relative to the state.

    `relative_to` is the state dimension that each action is relative to; None: the one with the same index.
    """

    observation: tuple[int, ...] | None
    action: tuple[int, ...]
    relative: np.ndarray
    relative_to: tuple[int, ...] | None = None

    @property
    def chunk(self) -> int:
        """Control steps from the current frame to the last action of a chunk."""
        return max(self.action) + 1


@dataclass(frozen=True)
class Pairing:
    """Which state dimension measures what an action dimension commands.

    `places` is that state dimension for every action dimension, or -1: then the action is never relative and never
    held at a pose. Only targets have one; `kinds` says what an action dimension is, a target unless an embodiment says
    otherwise.
    """

    places: np.ndarray
    kinds: tuple[Kind, ...]
    states: int  # dimensions of the state

    @property
    def paired(self) -> np.ndarray:
        """Mask of the action dimensions that a state dimension measures."""
        return self.places >= 0

    def of_kind(self, *kinds: Kind) -> np.ndarray:
        """Mask of the action dimensions of these kinds."""
        return np.array([kind in kinds for kind in self.kinds])

    @property
    def commands(self) -> np.ndarray:
        """The action dimension that commands each state dimension, or -1."""
        found = np.full(self.states, -1)
        found[self.places[self.paired]] = np.flatnonzero(self.paired)
        return found

    def pose(self, state: np.ndarray) -> np.ndarray:
        """The measured value of every action dimension, from states (..., dimensions); 0 where nothing measures it."""
        return np.where(self.paired, state[..., self.places], np.zeros((), state.dtype))


def pair(source: Source, embodiment: Embodiment | None = None) -> Pairing:
    """Pair action and state dimensions of the same name, the dataset's or the embodiment's.

    If the state was recorded without names and has as many dimensions as the action, an embodiment pairs them in order.
    """
    states = len(source.state_names)
    kinds: list[Kind] = ["target"] * len(source.action_names)
    if embodiment is None:
        return Pairing(np.array(source.state_places), tuple(kinds), states)
    kinds = [dimension.kind for dimension in embodiment.dimensions]
    return Pairing(embodiment.measured_by(source.action_names, source.state_names), tuple(kinds), states)


@dataclass(frozen=True)
class Lesson:
    """One task as training sees it: its data, instruction and active dimensions.

    With `hold`, an idle arm is trained to stay where it is at the current frame: a target at its measured value, an
    increment or velocity at 0, a switch as it was commanded. A target that nothing measures keeps the recorded action.
    """

    task: Task
    source: Source
    active: np.ndarray
    hold: bool
    embodiment: Embodiment | None = None

    @cached_property
    def pairing(self) -> Pairing:
        """Which state dimension measures what an action dimension commands."""
        return pair(self.source, self.embodiment)

    def actions(self, frames: np.ndarray, deltas: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Absolute actions (n, chunk, dimensions) and which of them lie beyond the episode (repeated, padded)."""
        near, padded = self.around(frames, deltas)
        values = self.source.action[near]
        if self.hold and not self.active.all():
            pairing = self.pairing
            held = ~self.active & (pairing.paired | pairing.of_kind("delta", "velocity"))
            values[..., held] = pairing.pose(self.source.state[frames])[:, None, held]
            switched = ~self.active & pairing.of_kind("binary")
            values[..., switched] = self.source.action[frames][:, None, switched]
        return values, padded

    def around(self, frames: np.ndarray, deltas: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Frames at `deltas` from each frame, clipped to its episode, and which were clipped."""
        episode = self.source.episode_of(frames)
        first, last = self.source.starts[episode][:, None], self.source.ends[episode][:, None] - 1
        wanted = frames[:, None] + np.asarray(deltas)
        return np.clip(wanted, first, last), (wanted < first) | (wanted > last)

    def blocks(self, layout: Layout, episodes: Sequence[int] | None = None) -> Iterator[tuple[str, np.ndarray]]:
        """State and action rows as they enter normalization, one episode at a time, without padded steps."""
        for episode in range(len(self.source.starts)) if episodes is None else episodes:
            frames = np.arange(self.source.starts[episode], self.source.ends[episode])
            state = self.source.state[frames]
            actions, padded = self.actions(frames, layout.action)
            if layout.relative.any():
                origins = state[:, list(layout.relative_to or range(actions.shape[2]))]
                actions = actions - np.where(layout.relative, origins[:, None], 0)
            yield STATE, state
            yield ACTION, actions[~padded]
