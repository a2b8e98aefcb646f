"""A trained policy in an arena: it observes, predicts a chunk, executes its first steps, and observes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.core.observation import Question
from holdfast.embodiments.embodiment import Embodiment
from holdfast.policies.action_queue import ActionQueue, IdleArms

if TYPE_CHECKING:
    from holdfast.policies.pilot import Pilot


def chunk_queue(episode: ScoredEpisode, horizon: int, trained: Embodiment | None = None) -> ActionQueue:
    """The queue of an episode that has just begun, in an arena that waits for every answer.

    Arms that the task does not use are held: by the robot that the policy was trained for, else by the arena's.
    """
    arena = episode.arena
    robot = trained or arena.embodiment
    if robot is None:
        return ActionQueue(horizon)
    pose = robot.pose(episode.observe().state, robot.measured_by(arena.action, arena.state))
    return ActionQueue(horizon, idle=IdleArms(robot, pose, episode.task.arms))


class LearnedPolicy:
    """A saved policy that acts. With the seed of a layout it acts as in `holdfast evaluate`."""

    def __init__(self, episode: ScoredEpisode, pilot: Pilot, seed: int = 0, robot: Embodiment | None = None) -> None:
        """Start in an episode that has just begun.

        Args:
            episode: Where it will act.
            pilot: The policy.
            seed: Seed of the policy's noise.
            robot: What the policy was trained for, if it says so.
        """
        self._episode, self._pilot, self._seed = episode, pilot, seed
        self._queue = chunk_queue(episode, pilot.answer_steps, robot)
        self._asked = 0

    def act(self) -> np.ndarray | None:
        """The next action, or None once the task is done."""
        if self._episode.done:
            return None
        if self._queue.due:
            self._queue.put(self._queue.step, self._pilot.answer([self._question()])[0])
        return self._queue.take()

    def _question(self) -> Question:
        seen = self._episode.observe(self._pilot.size, self._pilot.cameras)
        self._asked += 1
        return Question(self._episode.task, seen.state, seen.images, self._seed, self._asked - 1)
