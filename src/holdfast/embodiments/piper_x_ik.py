"""Kinematics of PiPER-X: the hand's pose from the joints, and back in closed form (pitch axes, then yaw, then roll)."""

from __future__ import annotations

import math

import numpy as np

from holdfast.embodiments.piper_x import ANCHORS, AXES, BASE, HAND_AXIS, PIPER_X_PAIR, TCP

_JOINTS = [d for d in PIPER_X_PAIR.dimensions if d.arm == "left" and d.kind == "joint"]
_LOWER = np.array([d.lower for d in _JOINTS]) - 1e-6
_UPPER = np.array([d.upper for d in _JOINTS]) + 1e-6
_UPPER_ARM, _FOREARM, _WRIST = (ANCHORS[i + 1] - ANCHORS[i] for i in (1, 2, 3))
_LENGTH_1, _LENGTH_2, _LENGTH_3 = (float(np.linalg.norm(link)) for link in (_UPPER_ARM, _FOREARM, _WRIST))
_JOINT_5_TO_TCP = float(np.linalg.norm(ANCHORS[5] - ANCHORS[4])) + TCP
_HAND_AT_ZERO = np.column_stack([np.cross([0, 1, 0], HAND_AXIS), [0, 1, 0], HAND_AXIS])


def _pitch(link: np.ndarray) -> float:
    """Angle of a link in the arm's plane, growing with a positive rotation about y."""
    return math.atan2(-link[2], link[0])


_PITCH_1, _PITCH_2, _PITCH_3 = _pitch(_UPPER_ARM), _pitch(_FOREARM), _pitch(_WRIST)


def forward(side: str, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position and rotation of the tool centre point in the world, for six joint angles."""
    rotation, position, anchor = np.eye(3), BASE[side], np.zeros(3)
    for angle, point, axis in zip(joints, ANCHORS, AXES, strict=True):
        position = position + rotation @ (point - anchor)
        rotation = rotation @ _about(axis, angle)
        anchor = point
    return position + rotation @ (TCP * HAND_AXIS), rotation @ _HAND_AT_ZERO


def solve(side: str, position: np.ndarray, rotation: np.ndarray, near: np.ndarray | None = None) -> np.ndarray | None:
    """The six joint angles that put the tool centre point at a world pose, or None if it is out of reach.

    The elbow is always up, so the solution is unique except for whole turns of joint 6; the one nearest to `near` is
    taken.

    Args:
        side: "left" or "right".
        position: Of the tool centre point.
        rotation: Its columns are the hand's axes: away from the wrist camera, opening of the fingers, approach.
        near: Joint angles to stay close to.
    """
    approach = rotation[:, 2]
    wrist = np.asarray(position, float) - BASE[side] - _JOINT_5_TO_TCP * approach  # joint 5 lies in the arm's plane
    q1 = math.atan2(wrist[1], wrist[0])
    cos1, sin1 = math.cos(q1), math.sin(q1)
    sideways = approach[1] * cos1 - approach[0] * sin1
    if abs(sideways) > 0.9998:
        return None
    q5 = -math.asin(sideways)
    cos5 = math.cos(q5)
    forward = (approach[0] * cos1 + approach[1] * sin1) / cos5  # direction of the link before joint 5
    upward = approach[2] / cos5
    reach = math.hypot(wrist[0], wrist[1]) - _LENGTH_3 * forward
    height = wrist[2] - _LENGTH_3 * upward - ANCHORS[1][2]
    cos_elbow = (reach**2 + height**2 - _LENGTH_1**2 - _LENGTH_2**2) / (2 * _LENGTH_1 * _LENGTH_2)
    if abs(cos_elbow) > 1:
        return None
    elbow = math.acos(cos_elbow)
    shoulder = math.atan2(-height, reach) - math.atan2(_LENGTH_2 * math.sin(elbow), _LENGTH_1 + _LENGTH_2 * cos_elbow)
    q2, q3 = _wrap(shoulder - _PITCH_1), _wrap(elbow - (_PITCH_2 - _PITCH_1))
    q4 = _wrap(math.atan2(-upward, forward) - _PITCH_3 - q2 - q3)
    turned = _about([0, 0, 1], q1) @ _about([0, 1, 0], q2 + q3 + q4) @ _about(AXES[4], q5) @ _HAND_AT_ZERO
    roll = turned.T @ rotation
    q6 = math.atan2(roll[1, 0], roll[0, 0])
    if near is not None:
        q6 += 2 * math.pi * round((near[5] - q6) / (2 * math.pi))
    joints = np.array([q1, q2, q3, q4, q5, q6])
    return joints if np.all(joints >= _LOWER) and np.all(joints <= _UPPER) else None


def down(yaw: float = 0.0, tilt: float = 0.0, heading: float = 0.0) -> np.ndarray:
    """A hand that points down, its fingers opening along world y turned by `yaw`; leaning by `tilt` to `heading`."""
    opening = np.array([-math.sin(yaw), math.cos(yaw), 0])
    approach = np.array([0, 0, -1.0])
    rotation = np.column_stack([np.cross(opening, approach), opening, approach])
    return _about([math.sin(heading), -math.cos(heading), 0], tilt) @ rotation


def heading(side: str, position: np.ndarray) -> float:
    """Direction from the base of an arm to a point, in the horizontal plane."""
    return math.atan2(position[1] - BASE[side][1], position[0] - BASE[side][0])


def _about(axis: list[float] | np.ndarray, angle: float) -> np.ndarray:
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * (cross @ cross)


def _wrap(angle: float) -> float:
    return (angle + math.pi) % (2 * math.pi) - math.pi
