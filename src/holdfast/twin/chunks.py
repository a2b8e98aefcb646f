"""Chunks of actions carried out in the cell one by one, whoever predicts them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from holdfast.embodiments import EMBODIMENTS
from holdfast.twin.env import CellEnv

_ROBOT = EMBODIMENTS["piper_x_pair"]


class Chunks:
    """The end of a policy that touches the environment. Arms the task does not use hold the pose they were found in."""

    def __init__(self, env: CellEnv) -> None:
        """Begin in an environment just reset."""
        self._arms = env.task.record.arms
        self._start = env.observe().state
        self._queue: deque[np.ndarray] = deque()

    @property
    def empty(self) -> bool:
        """Whether the policy has to look again."""
        return not self._queue

    def put(self, actions: Iterable[np.ndarray]) -> None:
        """Actions to carry out next."""
        self._queue.extend(actions)

    def take(self) -> np.ndarray:
        """The next 14 targets."""
        return _ROBOT.hold(self._queue.popleft(), self._start, self._arms)
