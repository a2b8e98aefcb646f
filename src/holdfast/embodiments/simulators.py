"""The hands of two simulators, as their datasets and experts command them: by increments, not by joint targets."""

from __future__ import annotations

from holdfast.embodiments.embodiment import Dimension, Embodiment


def _increments(names: tuple[str, ...]) -> tuple[Dimension, ...]:
    # Shares of the largest increment, from -1 to 1. Experts use all of it, and nothing faster exists.
    return tuple(Dimension(name, "arm", "delta", -1.0, 1.0, 0.5, 1.0) for name in names)


# The last number closes the gripper with this effort for one step.
METAWORLD = Embodiment(
    "metaworld", (*_increments(("dx", "dy", "dz")), Dimension("grip", "arm", "velocity", -1.0, 1.0, 0.5, 1.0))
)
# Increments of position and of rotation, and a gripper that is told to open (-1) or to close (1).
LIBERO = Embodiment(
    "libero",
    (
        *_increments(("dx", "dy", "dz", "droll", "dpitch", "dyaw")),
        Dimension("gripper", "arm", "binary", -1.0, 1.0, 1.0),
    ),
)
