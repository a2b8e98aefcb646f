"""Which action comes next, in an arena and on a robot: a policy answers with chunks, which are carried out in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.embodiments.embodiment import Embodiment


@dataclass(frozen=True)
class IdleArms:
    """Arms that a task does not use: whatever the policy says, they stay at the pose in which the attempt began."""

    embodiment: Embodiment
    pose: np.ndarray
    arms: Sequence[str]  # those that the task uses

    def hold(self, action: np.ndarray) -> np.ndarray:
        """The action with those arms held."""
        return self.embodiment.hold(action, self.pose, self.arms)


class ActionQueue:
    """The actions of one attempt as they come in, numbered by `step`: how many were carried out so far.

    An answer to what was seen at step s speaks of steps s, s + 1, ... The next question is asked `ahead` steps before
    `horizon` actions of an answer are carried out, and its answer takes over exactly after them. So an answer that
    takes less than `ahead` steps costs no time, and how much less makes no difference to what the robot does. A later
    answer takes over when it comes, with the action of the step it meets. Where the actions run out the robot stands
    still, and standing still is no step: what was planned from there is still right when it comes.
    """

    def __init__(self, horizon: int, ahead: int = 0, idle: IdleArms | None = None) -> None:
        """Begin with nothing planned.

        Args:
            horizon: Actions of an answer to carry out.
            ahead: Steps to ask before they are used up; 0 where the world waits for the answer.
            idle: Arms to hold; None where there are none to tell apart.
        """
        self.step = 0
        self._horizon, self._ahead, self._idle = horizon, ahead, idle
        self._base, self._actions = 0, np.empty((0, 0))
        self._next: tuple[int, np.ndarray] | None = None
        self._ask, self._switch = 0, 0

    @property
    def due(self) -> bool:
        """Whether it is time to ask, if no question is open."""
        return self._next is None and self.step >= self._ask

    @property
    def needy(self) -> bool:
        """Whether the answer that is still to come should take over now."""
        return self._next is None and self.step >= self._switch

    def put(self, base: int, actions: np.ndarray) -> None:
        """Take the answer to the question of step `base`."""
        self._next = base, actions

    def take(self) -> np.ndarray | None:
        """The action of this step, which is then over; None where there is none, so that the robot has to wait."""
        if self._next is not None and self.step >= self._switch:
            self._base, self._actions = self._next
            self._next = None
            self._switch = max(self.step, min(self.step + self._horizon, self._base + len(self._actions)))
            self._ask = max(self.step, self._switch - self._ahead)
        place = self.step - self._base
        if place >= len(self._actions):
            return None
        self.step += 1
        action = np.asarray(self._actions[place])
        return self._idle.hold(action) if self._idle else action


def check_horizon(horizon: int | None, ahead: int, steps: int) -> int:
    """The horizon asked for, or the longest there can be with answers of so many steps."""
    longest = steps - ahead
    if ahead < 0 or longest < 1:
        raise HoldfastError(
            f"Answers have {steps} steps, so asking ahead is from 0 to {steps - 1} steps, got {ahead}. Use --ahead."
        )
    if horizon is not None and not 1 <= horizon <= longest:
        raise HoldfastError(
            f"Answers have {steps} steps and {ahead} pass while asking ahead: a horizon is from 1 to {longest}, got "
            f"{horizon}. Use --horizon and --ahead."
        )
    return horizon or longest
