"""Which action belongs to which control step: answers come early, late or not at all, and steps go on."""

from __future__ import annotations

import numpy as np

from holdfast.errors import HoldfastError


class Plan:
    """The actions of one attempt as they come in.

    An answer to what was seen at step s speaks of steps s, s + 1, ... The next question is asked `ahead` steps before
    `horizon` actions of an answer are carried out, and its answer takes over exactly after them. So an answer that
    takes less than `ahead` steps costs no time, and how much less makes no difference to what the robot does. A later
    answer takes over when it comes, from the action of that step on.
    """

    def __init__(self, horizon: int, ahead: int) -> None:
        """Begin with nothing planned.

        Args:
            horizon: Actions of an answer to carry out.
            ahead: Steps to ask before they are used up.
        """
        self._horizon, self._ahead = horizon, ahead
        self._base, self._actions = 0, np.empty((0, 0))
        self._next: tuple[int, np.ndarray] | None = None
        self._ask, self._switch = 0, 0

    def due(self, step: int) -> bool:
        """Whether it is time to ask, if no question is open."""
        return self._next is None and step >= self._ask

    def needs(self, step: int) -> bool:
        """Whether an answer that is still to come should take over at this step."""
        return self._next is None and step >= self._switch

    def put(self, base: int, actions: np.ndarray) -> None:
        """Take the answer to the question of step `base`."""
        self._next = base, actions

    def take(self, step: int) -> np.ndarray | None:
        """The action of a step; None where there is none, so that the robot has to wait."""
        if self._next is not None and step >= self._switch:
            self._base, self._actions = self._next
            self._next = None
            self._switch = max(step, min(step + self._horizon, self._base + len(self._actions)))
            self._ask = max(step, self._switch - self._ahead)
        place = step - self._base
        return self._actions[place] if 0 <= place < len(self._actions) else None


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
