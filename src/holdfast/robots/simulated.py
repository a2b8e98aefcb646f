"""The twin as a robot: a control step of physics for every command."""

from __future__ import annotations

import numpy as np

from holdfast.core.observation import Observation
from holdfast.core.records import Trial
from holdfast.embodiments.piper_x import PIPER_X_PAIR
from holdfast.twin.cell import CONTROL_HZ
from holdfast.twin.env import CellEnv

_SHOWN = ("head", "front")
_SHOWN_SIZE = (240, 320)


class Simulated:
    """A task of the simulated cell; its layout is drawn from the attempt's seed, and it scores itself."""

    embodiment = PIPER_X_PAIR
    rate = CONTROL_HZ
    resets_itself = scores_itself = True

    def __init__(self, task: str, cameras: dict[str, tuple[int, int]], level: str = "standard") -> None:
        """Compile the cell.

        Args:
            task: Name of a task of the twin.
            cameras: Those the policy looks through, with height and width.
            level: How far objects stray.
        """
        self._env, self._cameras, self.level = CellEnv(task), cameras, level
        self._last = self._env.world.home

    @property
    def seconds(self) -> float:
        """The time that an attempt is given."""
        return self._env.task.max_steps / CONTROL_HZ

    def begin(self, seed: int) -> None:
        """Lay the objects out, arms at home."""
        self._env.reset(seed, self.level)
        self._last = self._env.world.state()

    def observe(self) -> Observation:
        """The measured pose, and the images drawn in the policy's size."""
        cameras, world = self._cameras, self._env.world
        sizes = set(cameras.values())
        drawn = {size: world.render([n for n in cameras if cameras[n] == size], *size) for size in sizes}
        return Observation(world.state(), {name: drawn[size][name] for name, size in cameras.items()})

    def send(self, pose: np.ndarray) -> None:
        """One control step towards a pose."""
        self._last = pose
        self._env.step(pose)

    def stop(self) -> None:
        """One more step with the last command: nothing moves but what was moving."""
        if not self.over:
            self._env.step(self._last)

    def picture(self) -> np.ndarray:
        """Two views side by side."""
        return np.hstack(list(self._env.world.render(_SHOWN, *_SHOWN_SIZE).values()))

    @property
    def over(self) -> bool:
        """Whether the score is full or the task's time is up."""
        return self._env.done or self._env.over

    def trial(self, stage: int) -> Trial:
        """The attempt so far, scored."""
        return self._env.trial(stage)

    def close(self) -> None:
        """Free the renderers."""
        self._env.close()
