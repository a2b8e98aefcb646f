"""The next action, in an arena and on a robot: a policy answers with chunks, of which only a part is executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.embodiments.embodiment import Embodiment


@dataclass(frozen=True)
class IdleArms:
    """Arms that a task does not use: they are held at their initial pose, whatever the policy predicts."""

    embodiment: Embodiment
    pose: np.ndarray
    arms: Sequence[str]  # those that the task uses

    def hold(self, action: np.ndarray) -> np.ndarray:
        """The action with the idle arms held."""
        return self.embodiment.hold(action, self.pose, self.arms)


class ActionQueue:
    """The queue of actions of one attempt. `step` counts the actions executed so far.

    An answer to an observation at step s covers steps s, s + 1, ... The next question is asked `ahead` steps before
    `horizon` actions of an answer are executed, and its answer takes over exactly after them. So an answer that takes
    less than `ahead` steps costs no time, and how much less does not change what the robot does. A later answer takes
    over when it arrives, with its action for the current step. If the actions run out, the robot stands still without a
    step, so an answer planned from there is still valid when it arrives.
    """

    def __init__(self, horizon: int, ahead: int = 0, idle: IdleArms | None = None) -> None:
        """Start with an empty queue.

        Args:
            horizon: Actions of an answer to execute.
            ahead: How many steps before they are used up to ask; 0 if the environment waits for the answer.
            idle: Arms to hold; None if there is no embodiment.
        """
        self.step = 0
        self._horizon, self._ahead, self._idle = horizon, ahead, idle
        self._base, self._actions = 0, np.empty((0, 0))
        self._next: tuple[int, np.ndarray] | None = None
        self._ask, self._switch = 0, 0

    @property
    def due(self) -> bool:
        """Whether it is time to ask, if no question is pending."""
        return self._next is None and self.step >= self._ask

    @property
    def needy(self) -> bool:
        """Whether a pending answer should take over now."""
        return self._next is None and self.step >= self._switch

    def put(self, base: int, actions: np.ndarray) -> None:
        """Add the answer to the question of step `base`."""
        self._next = base, actions

    def take(self) -> np.ndarray | None:
        """The action of this step, which is then complete; None if there is none and the robot has to wait."""
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
    """The given horizon, or the longest possible with answers of `steps` steps."""
    longest = steps - ahead
    if ahead < 0 or longest < 1:
        raise HoldfastError(f"Answers have {steps} steps, so --ahead must be from 0 to {steps - 1}, got {ahead}.")
    if horizon is not None and not 1 <= horizon <= longest:
        raise HoldfastError(
            f"Answers have {steps} steps and --ahead takes {ahead} of them: --horizon must be from 1 to {longest}, got "
            f"{horizon}."
        )
    return horizon or longest
