"""A trained policy in the cell: it looks, predicts a chunk, carries out the first steps of it, and looks again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from holdfast.core.observation import Question
from holdfast.embodiments import EMBODIMENTS
from holdfast.policies.pilot import Pilot
from holdfast.twin.chunks import Chunks
from holdfast.twin.env import CellEnv


def load(folder: Path, device: str = "cpu", horizon: int | None = None) -> Pilot:
    """A saved policy for the twin's robot."""
    return Pilot(folder, EMBODIMENTS["piper_x_pair"].names, device, horizon)


class Learned:
    """A saved policy as a policy of the twin: in the layout of its seed it does what `holdfast evaluate` scores."""

    def __init__(self, env: CellEnv, pilot: Pilot, seed: int = 0) -> None:
        """Begin in an environment just reset.

        Args:
            env: Where it will act.
            pilot: The policy.
            seed: Of its own randomness.
        """
        self._env, self._pilot, self._seed = env, pilot, seed
        self._chunks = Chunks(env)
        self._looks = 0

    def act(self) -> np.ndarray | None:
        """The next 14 targets, or None once the task is done."""
        if self._env.done:
            return None
        if self._chunks.empty:
            self._chunks.put(self._pilot.answer([self._look()])[0])
        return self._chunks.take()

    def _look(self) -> Question:
        seen = self._env.observe(self._pilot.size, self._pilot.cameras)
        look = Question(self._env.task.record, seen.state, seen.images, self._seed, self._looks)
        self._looks += 1
        return look
