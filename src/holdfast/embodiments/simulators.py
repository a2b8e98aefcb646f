"""Robots of simulators, as their datasets and experts command them: two hands by increments, ALOHA by joint targets."""

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


def _aloha(arm: str) -> tuple[Dimension, ...]:
    # Limits of gym-aloha's joints, and a gripper from 0 to 1. The step is a brisk teleoperator's: 2.5 rad/s at 50 Hz.
    limits = {
        "waist": (-3.14158, 3.14158),
        "shoulder": (-1.85005, 1.25664),
        "elbow": (-1.76278, 1.6057),
        "forearm_roll": (-3.14158, 3.14158),
        "wrist_angle": (-1.8675, 2.23402),
        "wrist_rotate": (-3.14158, 3.14158),
    }
    joints = (Dimension(f"{arm}_{name}", arm, "joint", low, high, 0.05) for name, (low, high) in limits.items())
    return (*joints, Dimension(f"{arm}_gripper", arm, "target", 0.0, 1.0, 0.1))


ALOHA = Embodiment("aloha", (*_aloha("left"), *_aloha("right")))
