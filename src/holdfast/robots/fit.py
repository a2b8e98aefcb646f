"""Whether a policy was made for a robot: the same dimensions in the same order, at the same control rate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from holdfast.core.errors import HoldfastError
from holdfast.embodiments.embodiment import Embodiment
from holdfast.robots import NamedRobot
from holdfast.robots.client import About


def check_fits(
    about: About, robot: NamedRobot, trained_for: Embodiment | None = None, called: Sequence[str] = ()
) -> None:
    """Refuse a policy that would move other joints than it means, or faster or slower than it has learned.

    Args:
        about: The policy.
        robot: The robot, which need not be connected yet.
        trained_for: The robot of the policy's run, if that is known. The policy has its dimensions, in order.
        called: What the run's datasets call them.
    """
    action, state = about.names, about.state_names or about.names
    body = robot.embodiment
    if trained_for:
        action, state = (trained_for.names if names == tuple(called) else names for names in (action, state))
        before, now = ([(d.name, d.arm, d.kind) for d in whose.dimensions] for whose in (trained_for, body))
        _compare("the robot that its run was trained for", before, now, robot)
    _compare("its action", action, body.names, robot)
    _compare("its state", state, body.names, robot)
    if about.fps is not None and about.fps != robot.rate:
        raise HoldfastError(
            f"The policy was trained at {about.fps:g} steps a second, --robot {robot.name} takes {robot.rate}. Choose "
            "a policy that was trained at this rate."
        )


def _compare(whose: str, found: Sequence[object], here: Sequence[object], robot: NamedRobot) -> None:
    """Refuse the first dimension that is another one."""
    for number, (one, other) in enumerate(zip_longest(found, here), 1):
        if one != other:
            said = (f"{thing!r:.80}" if thing else "missing" for thing in (one, other))
            raise HoldfastError(
                f"The policy does not fit --robot {robot.name}: dimension {number} of {whose} is {next(said)}, of the "
                f"robot {next(said)}. Choose a policy of this robot. If only its datasets call the dimensions "
                "otherwise, give its run, which knows the robot: --run RUN --stage K."
            )
