"""Turns drawn frames into the batch a policy reads, ahead of time in the background."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch

from holdfast.data.cache.cache import Cache
from holdfast.data.lerobot.source import ACTION, STATE
from holdfast.data.lesson import Layout, Lesson
from holdfast.data.sampler import Draw, Sampler

Batch = dict[str, Any]
AHEAD = 3  # batches prepared in advance
THREADS = 16  # most threads that gather or decode images; two per core, because some wait for the disk


class Batches:
    """Makes the batches of one stage in the order of its sampler.

    For a GPU, batches are gathered in pinned memory and copied on a stream of their own while the step before runs.
    """

    def __init__(self, lessons: Sequence[Lesson], caches: Sequence[Cache], layout: Layout, device: str = "cpu") -> None:
        self._lessons, self._caches = lessons, caches
        self._layout = layout
        self._instructions = np.array([lesson.task.instruction for lesson in lessons], dtype=object)
        self._device = torch.device(device)
        self._stream = copy_stream(self._device)
        self._threads = min(THREADS, 2 * (os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="frames")

    def make(self, draw: Draw) -> Batch:
        """Gather one batch: numbers by task, then images."""
        n, layout = len(draw.frames), self._layout
        observed = layout.observation or (0,)
        source = self._lessons[0].source
        action = self._empty((n, len(layout.action), source.action.shape[1]), torch.float32)
        padded = self._empty((n, len(layout.action)), torch.bool)
        state = self._empty((n, len(observed), source.state.shape[1]), torch.float32)
        near = np.empty((n, len(observed)), np.int64)
        for row in np.unique(draw.rows):
            lesson, places = self._lessons[row], np.flatnonzero(draw.rows == row)
            action.numpy()[places], padded.numpy()[places] = lesson.actions(draw.frames[places], layout.action)
            near[places], _ = lesson.around(draw.frames[places], observed)
            state.numpy()[places] = lesson.source.state[near[places]]
        images = self._images(np.repeat(draw.rows, len(observed)), near.ravel())
        batch: Batch = {
            ACTION: action,
            "action_is_pad": padded,
            "task": self._instructions[draw.rows].tolist(),
            "task_index": torch.from_numpy(draw.rows),
            STATE: state,
            **{key: pixels.unflatten(0, (n, len(observed))) for key, pixels in images.items()},
        }
        if layout.observation is None:  # the policy reads one frame and expects no time axis
            for key in (STATE, *images):
                batch[key] = batch[key][:, 0]
        return batch

    def _images(self, rows: np.ndarray, frames: np.ndarray) -> dict[str, torch.Tensor]:
        """Images of frame `frames[i]` of lesson `rows[i]`, by camera; every thread fills a slice of one camera."""
        spec = self._caches[0].spec
        sizes, last = spec.cameras, spec.format == "jpeg"  # JPEG decoders write channels last
        images = {key: self._pixels((len(frames), *size), last) for key, size in sizes.items()}
        slices = np.array_split(np.arange(len(frames)), max(1, self._threads // len(sizes)))
        jobs = [
            self._pool.submit(self._fill, key, pixels[part[0] : part[-1] + 1], rows[part], frames[part])
            for key, pixels in images.items()
            for part in slices
            if len(part)
        ]
        for job in jobs:
            job.result()
        return images

    def _fill(self, camera: str, out: torch.Tensor, rows: np.ndarray, frames: np.ndarray) -> None:
        present = np.unique(rows)
        if len(present) == 1:
            self._caches[present[0]].images(camera, torch.from_numpy(frames), out)
            return
        for row in present:
            places = np.flatnonzero(rows == row)
            part = torch.empty((len(places), *out.shape[1:]), dtype=torch.uint8)
            self._caches[row].images(camera, torch.from_numpy(frames[places]), part)
            out[torch.from_numpy(places)] = part

    def _pixels(self, shape: tuple[int, int, int], last: bool) -> torch.Tensor:
        n, height, width = shape
        if last:
            return self._empty((n, height, width, 3), torch.uint8).permute(0, 3, 1, 2)
        return self._empty((n, 3, height, width), torch.uint8)

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, pin_memory=self._stream is not None)

    def iterate(self, sampler: Sampler, start: int, rank: int = 0, world: int = 1) -> Iterator[tuple[int, Draw, Batch]]:
        """Yield (step, draw, batch) from step `start` to the end of the stage, batches on the device."""
        # Two at a time, so that the gathering threads never wait for the slowest slice of a batch.
        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="batches") as worker:
            waiting: list[tuple[int, Draw, Future[tuple[Batch, torch.cuda.Event | None]]]] = []
            upcoming = iter(range(start, sampler.steps))
            try:
                while True:
                    while len(waiting) < AHEAD and (step := next(upcoming, None)) is not None:
                        draw = sampler.draw(step, rank, world)
                        waiting.append((step, draw, worker.submit(self._send, draw)))
                    if not waiting:
                        return
                    step, draw, job = waiting.pop(0)
                    yield step, draw, self._receive(*job.result())
            finally:
                for _, _, job in waiting:
                    job.cancel()

    def _send(self, draw: Draw) -> tuple[Batch, torch.cuda.Event | None]:
        """Make a batch and start its copy to the device."""
        if self._stream is None:
            return self.make(draw), None
        with torch.cuda.stream(self._stream):
            batch = {
                key: value.to(self._device, non_blocking=True) if isinstance(value, torch.Tensor) else value
                for key, value in self.make(draw).items()
            }
            return batch, self._stream.record_event()

    def _receive(self, batch: Batch, copied: torch.cuda.Event | None) -> Batch:
        """Let the current stream wait for the copies, and keep their memory until it is done with them."""
        if copied is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(copied)
            keep_for(current, batch)
        return batch

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(cancel_futures=True)


def copy_stream(device: torch.device) -> torch.cuda.Stream | None:
    """The GPU stream on which batches are copied and then prepared; None on a CPU."""
    if device.type != "cuda":
        return None
    return _stream(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _stream(index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(index)


def prepare_on_copy_stream(
    device: torch.device, prepare: Callable[..., dict[str, Any]], *arguments: Any
) -> dict[str, Any]:
    """Call `prepare` on the copy stream and let the current stream wait for its result.

    On the current stream, preparation that copies values back to the host (such as a prompt that contains the state)
    would have to wait for all earlier steps.
    """
    stream = copy_stream(device)
    if stream is None:
        return prepare(*arguments)
    with torch.cuda.stream(stream):
        ready = prepare(*arguments)
    usual = torch.cuda.current_stream(device)
    usual.wait_stream(stream)
    keep_for(usual, ready)
    return ready


def keep_for(stream: torch.cuda.Stream, batch: dict[str, Any]) -> None:
    """Keep the memory of a batch from being reused before a stream has done the work queued on it so far."""
    for value in batch.values():
        if isinstance(value, torch.Tensor) and value.is_cuda:
            value.record_stream(stream)
