"""From drawn frames to the batch a policy reads, made ahead of time by one background thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from holdfast.data.frames import Frames
from holdfast.data.sampler import Draw, Sampler
from holdfast.data.source import ACTION, STATE, Source
from holdfast.records import Task

Batch = dict[str, Any]
AHEAD = 3  # batches prepared before they are asked for


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


class Batches:
    """Makes the batches of one stage in the order of its sampler."""

    def __init__(self, lessons: Sequence[Lesson], frames: Frames, layout: Layout) -> None:
        self._lessons = lessons
        self._frames = frames
        self._layout = layout
        self._cameras = ThreadPoolExecutor(max_workers=4, thread_name_prefix="camera")

    def make(self, draw: Draw) -> Batch:
        """Gather one batch: numbers by task, then images."""
        n, layout = len(draw.frames), self._layout
        dimensions = self._lessons[0].source.action.shape[1]
        observed = layout.observation or (0,)
        action = np.empty((n, len(layout.action), dimensions), np.float32)
        padded = np.empty((n, len(layout.action)), bool)
        near = np.empty((n, len(observed)), np.int64)
        state = np.empty((n, len(observed), self._lessons[0].source.state.shape[1]), np.float32)
        for row in np.unique(draw.rows):
            lesson, places = self._lessons[row], np.flatnonzero(draw.rows == row)
            action[places], padded[places] = lesson.actions(draw.frames[places], layout.action)
            near[places], _ = lesson.around(draw.frames[places], observed)
            state[places] = lesson.source.state[near[places]]
        images = self._frames.read(np.repeat(draw.rows, len(observed)), near.ravel(), self._cameras)
        batch: Batch = {
            ACTION: torch.from_numpy(action),
            "action_is_pad": torch.from_numpy(padded),
            "task": [self._lessons[row].task.instruction for row in draw.rows],
            "task_index": torch.from_numpy(draw.rows),
            STATE: torch.from_numpy(state),
        }
        for key, pixels in images.items():
            batch[key] = pixels.unflatten(0, (n, len(observed)))
        if layout.observation is None:  # the policy reads one moment and knows no time axis
            for key in (STATE, *images):
                batch[key] = batch[key][:, 0]
        return batch

    def iterate(self, sampler: Sampler, start: int, rank: int = 0, world: int = 1) -> Iterator[tuple[int, Draw, Batch]]:
        """Yield (step, draw, batch) from step `start` to the end of the stage."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as worker:
            waiting: list[tuple[int, Draw, Future[Batch]]] = []
            upcoming = iter(range(start, sampler.steps))
            try:
                while True:
                    while len(waiting) < AHEAD and (step := next(upcoming, None)) is not None:
                        draw = sampler.draw(step, rank, world)
                        waiting.append((step, draw, worker.submit(self.make, draw)))
                    if not waiting:
                        return
                    step, draw, job = waiting.pop(0)
                    yield step, draw, job.result()
            finally:
                for _, _, job in waiting:
                    job.cancel()

    def close(self) -> None:
        """End the decoding threads."""
        self._cameras.shutdown(cancel_futures=True)
