"""A stage's policy that acts: give it an observation and a task, get actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.observation import Observation, Question
from holdfast.core.records import Task

if TYPE_CHECKING:
    from holdfast.embodiments.embodiment import Embodiment
    from holdfast.policies.pilot import Pilot


class TrainedPolicy:
    """A policy with its statistics. It answers in the robot's units.

    `cameras` and `size` (height, width) are the images that it reads, `state` and `action` name the dimensions, and
    `tasks` are those that it may be given by name.
    """

    def __init__(
        self,
        pilot: Pilot,
        tasks: Sequence[Task],
        state: Sequence[str],
        action: Sequence[str],
        robot: Embodiment | None,
    ) -> None:
        self._pilot, self._robot = pilot, robot
        self._tasks = {task.name: task for task in tasks}
        self.cameras, self.size = tuple(pilot.cameras), pilot.size
        self.state, self.action, self.tasks = tuple(state), tuple(action), tuple(self._tasks)
        self.reset()

    def reset(self, seed: int = 0) -> None:
        """Begin an attempt. The seed, the observations and the task decide all of its actions."""
        self._seed, self._asked = seed, 0

    def act(self, observation: Observation, task: str | Task) -> np.ndarray:
        """The next actions, an array (steps, dimensions). Execute all of them, then observe and ask again.

        Arms that the task does not use hold the pose that is measured.

        Args:
            observation: The state, and a uint8 image (height, width, 3) of every camera that the policy reads.
            task: One of the run's tasks by its name, or any other task.
        """
        if isinstance(task, str) and task not in self._tasks:
            raise unknown("task of the policy", task, self._tasks)
        known = self._tasks[task] if isinstance(task, str) else task
        state = self._check_state(observation.state)
        question = Question(known, state, self._check_images(observation.images), self._seed, self._asked)
        actions = np.asarray(self._pilot.answer([question])[0])
        self._asked += 1
        if self._robot is None:
            return actions
        return self._robot.hold_idle(actions, state, self.action, self.state, known.arms)

    def _check_state(self, state: np.ndarray) -> np.ndarray:
        values = np.asarray(state, dtype=np.float32)
        if values.shape != (len(self.state),) or not np.isfinite(values).all():
            raise HoldfastError(
                f"The state must be {len(self.state)} finite numbers ({', '.join(self.state)}), got an array of shape "
                f"{values.shape}."
            )
        return values

    def _check_images(self, images: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        wanted = (*self.size, 3)
        for camera in self.cameras:
            if camera not in images:
                raise HoldfastError(f"The image of camera {camera!r} is missing. Needed: {', '.join(self.cameras)}.")
            image = np.asarray(images[camera])
            if image.shape != wanted or image.dtype != np.uint8:
                raise HoldfastError(
                    f"The image of camera {camera!r} must be uint8 of shape {wanted}, got {image.dtype} of shape "
                    f"{image.shape}."
                )
        return {camera: np.asarray(images[camera]) for camera in self.cameras}
