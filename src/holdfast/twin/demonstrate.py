"""Demonstrations from worker processes, in the order of their seeds; images travel as files, however large they are."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import TracebackType

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.twin.cell import CAMERAS
from holdfast.twin.env import CellEnv
from holdfast.twin.expert import Expert


@dataclass(frozen=True)
class Order:
    """What to record. Layouts' seeds count up from `seed`; episodes are those of full score, in that order."""

    task: str
    episodes: int
    level: str
    height: int
    width: int
    seed: int


@dataclass(frozen=True)
class Demonstration:
    """A demonstration; `frames` holds its images, for each step and camera height x width x 3 bytes, if it is full."""

    seed: int
    full: bool
    states: np.ndarray
    actions: np.ndarray
    frames: Path


class Demonstrators:
    """Worker processes that demonstrate one seed after the other, a few ahead of whoever takes the results."""

    def __init__(self, order: Order, first: int, folder: Path, processes: int) -> None:
        self._order, self._next, self._folder = order, first, folder
        self._ahead = 2 * processes
        self._pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=end_with_parent)
        self._pending: deque[Future[Demonstration]] = deque()

    def __enter__(self) -> Demonstrators:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, wanted: int) -> None:
        """Set the workers to work on the next demonstrations, of which `wanted` more are needed."""
        while len(self._pending) < min(self._ahead, wanted):
            self._pending.append(self._pool.submit(demonstrate, self._order, self._next, self._folder))
            self._next += 1

    def take(self, wanted: int) -> Demonstration:
        """The next demonstration, with `wanted` more needed, this one included."""
        self.begin(wanted)
        try:
            return self._pending.popleft().result()
        except BrokenProcessPool:
            raise HoldfastError(
                "A worker process died, perhaps for lack of memory. Run the same command again to go on, with fewer "
                "--processes."
            ) from None


def demonstrate(order: Order, seed: int, folder: Path) -> Demonstration:
    """Let the expert demonstrate the layout of a seed, in a tempo and on paths of its own, and render what it sees."""
    env = _cell(order.task)
    env.reset(seed, order.level)
    expert = Expert(env.world, env.task.scripts, seed)
    states, actions = [], []
    path = folder / f"{seed}.frames"
    with path.open("wb") as file:
        while not env.over and (action := expert.act()) is not None:
            seen = env.observe((order.height, order.width), CAMERAS)
            for image in seen.images.values():
                file.write(image.tobytes())
            states.append(seen.state)
            actions.append(action)
            env.step(action)
    full = env.done
    if not full:
        path.unlink()
    return Demonstration(seed, full, np.array(states), np.array(actions), path)


@cache
def _cell(task: str) -> CellEnv:
    return CellEnv(task)


def end_with_parent() -> None:
    """Whoever is killed cannot tell its worker processes to stop; with this they notice by themselves."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
