"""A task as training sees it: its data, its words, its active dimensions; and which frames a policy reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.core.records import Task
from holdfast.data.lerobot.source import ACTION, STATE, Source


@dataclass(frozen=True)
class Layout:
    """Which frames around the current one a policy reads, and which action dimensions are relative to the state."""

    observation: tuple[int, ...] | None
    action: tuple[int, ...]
    relative: np.ndarray

    @property
    def horizon(self) -> int:
        """Control steps from the current frame to the last action of a chunk."""
        return max(self.action) + 1


@dataclass(frozen=True)
class Lesson:
    """One task as training sees it: its data, its words, and the dimensions that are its own.

    With `hold`, the dimensions of an idle arm are trained to stay where they are at the current frame.
    """

    task: Task
    source: Source
    active: np.ndarray
    hold: bool

    def actions(self, frames: np.ndarray, deltas: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Absolute actions (n, chunk, dimensions) and which of them lie beyond the episode (repeated, padded)."""
        near, padded = self.around(frames, deltas)
        values = self.source.action[near]
        if self.hold and not self.active.all():
            values[..., ~self.active] = self.source.state[frames][:, None, ~self.active]
        return values, padded

    def around(self, frames: np.ndarray, deltas: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Frames at `deltas` from each frame, kept inside its episode, and which had to be moved."""
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
                actions = actions - np.where(layout.relative, state[:, None], 0)
            yield STATE, state
            yield ACTION, actions[~padded]
