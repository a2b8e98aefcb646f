"""PiPER-X from its maker's description: joint limits, anchors and axes, and a pair of arms at a table.

Joint anchors and axes are given at zero angles in the base frame (x forward, z up). The hand frame has z along the
approach, y along the opening of the fingers, and x away from the wrist camera.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast.embodiments.embodiment import Dimension, Embodiment

SIDES = ("left", "right")
BASE = {"left": np.array([0.0, 0.25, 0.10]), "right": np.array([0.0, -0.25, 0.10])}

HAND_AXIS = np.array([0.99621, 0.0, 0.08698])  # at zero angles the hand points 5 degrees up
ANCHORS = np.array(
    [
        [0.0, 0.0, 0.123],
        [0.0, 0.0, 0.123],
        [-0.28241, 0.0, 0.16158],
        [-0.01261, 0.0, 0.20727],
        [0.06177, 0.0, 0.21376],
        [0.09664, 0.0, 0.21680],
    ]
)
AXES = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0], [0.08698, 0, -0.99621], HAND_AXIS])
TIP = 0.1425  # from joint 6 to the fingertips, along the hand
TCP = 0.128  # from joint 6 to the tool centre point, between the pads
TCP_TO_TIP = TIP - TCP


def _piper_x(arm: str) -> tuple[Dimension, ...]:
    # Ranges from the maker's description of PiPER-X. The step is a brisk teleoperator's (2.1 rad/s at 30 Hz), below
    # what the motors can do, so that normalized actions use the whole range and not just its centre. `fastest` is the
    # highest joint speed that the maker's SDK allows: 3 rad/s.
    degrees = [(-150, 150), (0, 180), (-170, 0), (-89, 89), (-89, 89), (-120, 120)]
    joints = tuple(
        Dimension(f"{arm}_joint_{i}.pos", arm, "joint", math.radians(low), math.radians(high), 0.07, 0.1)
        for i, (low, high) in enumerate(degrees, 1)
    )
    return (*joints, Dimension(f"{arm}_gripper.pos", arm, "gripper", 0.0, 0.1, 0.01))


PIPER_X_PAIR = Embodiment("piper_x_pair", (*_piper_x("left"), *_piper_x("right")))
