"""One PiPER-X arm with its gripper and wrist camera, built from primitives.

Joint anchors and axes are given at zero angles in the base frame (x forward, z up), where every link frame is parallel
to the base frame. The hand frame has z along the approach, y along the opening of the fingers, and
x away from the wrist camera, which sits on the far side of a hand that points down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from holdfast.embodiments.piper_x import ANCHORS, AXES, BASE, HAND_AXIS, PIPER_X_PAIR, TCP, TIP

FINGERS = ("finger_1", "finger_2")
OPEN = 0.07  # opening at rest (m); the fingers can open further, to the embodiment's limit

# Collision bits: 1 the world and its objects, 2 the left arm, 4 the right. An arm does not touch itself.
_BIT = {"left": 2, "right": 4}
_LINKS = ((0.036, 1.16, "shell"), (0.032, 0.67, "shell"), (0.028, 0.39, "black"), (0.028, 0.35, "shell"))
_PAD = {
    "condim": 4,
    "friction": [1.5, 0.02, 0.0005],
    "solref": [0.01, 1],
    "solimp": [0.95, 0.99, 0.001, 0.5, 2],
    "priority": 1,  # the pad's contact parameters take precedence
}
_VISUAL = {"contype": 0, "conaffinity": 0, "mass": 0, "group": 2}
_GEOM = mujoco.mjtGeom


@dataclass(frozen=True)
class _Servo:
    kp: float
    kv: float
    force: float
    armature: float


_SERVOS = (
    _Servo(600, 24, 60, 0.02),
    _Servo(600, 24, 60, 0.02),
    _Servo(600, 20, 60, 0.02),
    _Servo(200, 7, 25, 0.005),
    _Servo(200, 7, 25, 0.005),
    _Servo(80, 2.5, 15, 0.005),
)
_GRIPPER = _Servo(1500, 40, 30, 0.05)


def joint_names(side: str) -> tuple[str, ...]:
    """Names of an arm's six joints and of its gripper, as in the embodiment."""
    return tuple(d.name.removesuffix(".pos") for d in PIPER_X_PAIR.dimensions if d.arm == side)


def add_arm(spec: mujoco.MjSpec, side: str) -> None:
    """Add the arm of one side, its servos and its camera."""
    other = _BIT["right" if side == "left" else "left"]
    touch = {"contype": _BIT[side], "conaffinity": 1 | other}
    base = spec.worldbody.add_body(name=f"{side}_base", pos=BASE[side])
    half = BASE[side][2] / 2
    base.add_geom(type=_GEOM.mjGEOM_BOX, size=[0.07, 0.07, half], pos=[0, 0, -half], material="black", **touch)
    base.add_geom(type=_GEOM.mjGEOM_CYLINDER, size=[0.055, 0.05, 0], pos=[0, 0, 0.05], material="shell", **touch)
    base.add_geom(type=_GEOM.mjGEOM_CYLINDER, size=[0.057, 0.004, 0], pos=[0, 0, 0.09], material="metal", **_VISUAL)
    links = _add_links(spec, base, side)
    _shape_links(links, touch)
    hand = links[5].add_body(
        name=f"{side}_hand", gravcomp=1, quat=quaternion(np.cross([0, 1, 0], HAND_AXIS), [0, 1, 0], HAND_AXIS)
    )
    _shape_hand(hand, side, touch)
    _add_gripper(spec, hand, side, touch)


def quaternion(x: Any, y: Any, z: Any) -> np.ndarray:
    """The rotation whose columns are the unit vectors x, y and z."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.column_stack([x, y, z]).astype(float).ravel())
    return quat


def _add_links(spec: mujoco.MjSpec, base: Any, side: str) -> list[Any]:
    limits = [(d.lower, d.upper) for d in PIPER_X_PAIR.dimensions if d.arm == side]
    parent, anchor, links = base, np.zeros(3), []
    for name, point, axis, limit, servo in zip(joint_names(side), ANCHORS, AXES, limits, _SERVOS, strict=False):
        parent = parent.add_body(name=name, pos=point - anchor, gravcomp=1)
        parent.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=axis,
            range=limit,
            limited=1,
            armature=servo.armature,
            damping=0.3,
            frictionloss=0.05,
        )
        _add_servo(spec, name, mujoco.mjtTrn.mjTRN_JOINT, servo, limit)
        anchor = point
        links.append(parent)
    return links


def _add_servo(spec: mujoco.MjSpec, name: str, kind: mujoco.mjtTrn, servo: _Servo, limit: tuple[float, float]) -> None:
    actuator = spec.add_actuator(name=name, target=name, trntype=kind)
    actuator.set_to_position(kp=servo.kp, kv=servo.kv)
    actuator.forcerange, actuator.forcelimited = [-servo.force, servo.force], 1
    actuator.ctrlrange, actuator.ctrllimited = limit, 1


def _shape_links(links: list[Any], touch: dict[str, Any]) -> None:
    across = [math.sqrt(0.5), math.sqrt(0.5), 0, 0]  # a cylinder along y, the axis of the pitch joints
    links[0].add_geom(
        type=_GEOM.mjGEOM_CYLINDER, size=[0.05, 0.045, 0], quat=across, material="black", mass=0.71, **touch
    )
    for link, anchor, following, (radius, mass, material) in zip(
        links[1:5], ANCHORS[1:5], ANCHORS[2:6], _LINKS, strict=True
    ):
        ends = [0, 0, 0, *(following - anchor)]
        link.add_geom(
            type=_GEOM.mjGEOM_CAPSULE, size=[radius, 0, 0], fromto=ends, material=material, mass=mass, **touch
        )
    for link, radius, half in ((links[2], 0.042, 0.040), (links[3], 0.036, 0.036)):
        link.add_geom(type=_GEOM.mjGEOM_CYLINDER, size=[radius, half, 0], quat=across, material="black", **_VISUAL)


def _shape_hand(hand: Any, side: str, touch: dict[str, Any]) -> None:
    hand.add_geom(
        type=_GEOM.mjGEOM_BOX, size=[0.024, 0.042, 0.026], pos=[0, 0, 0.034], material="black", mass=0.45, **touch
    )
    hand.add_geom(type=_GEOM.mjGEOM_BOX, size=[0.010, 0.062, 0.005], pos=[0, 0, 0.060], material="metal", **_VISUAL)
    hand.add_site(name=f"{side}_tcp", pos=[0, 0, TCP], size=[0.004] * 3, rgba=[0, 0, 0, 0], group=4)
    hand.add_geom(type=_GEOM.mjGEOM_BOX, size=[0.020, 0.01, 0.006], pos=[-0.04, 0, 0.0], material="black", **_VISUAL)
    hand.add_geom(type=_GEOM.mjGEOM_BOX, size=[0.012, 0.045, 0.0115], pos=[-0.062, 0, 0], material="metal", **_VISUAL)
    tilt = math.radians(12)  # towards the fingertips; the camera looks along its own -z
    right, back = np.array([0, -1, 0]), np.array([-math.sin(tilt), 0, -math.cos(tilt)])
    hand.add_camera(
        name=f"{side}_wrist", pos=[-0.062, 0, 0.016], fovy=70, quat=quaternion(right, np.cross(back, right), back)
    )


def _add_gripper(spec: mujoco.MjSpec, hand: Any, side: str, touch: dict[str, Any]) -> None:
    gripper = joint_names(side)[6]
    limit = next((d.lower, d.upper) for d in PIPER_X_PAIR.dimensions if d.arm == side and d.kind == "gripper")
    fingers = [f"{side}_{finger}" for finger in FINGERS]
    for name, sign in zip(fingers, (1, -1), strict=True):
        finger = hand.add_body(name=name, gravcomp=1)
        finger.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[0, sign, 0],
            range=[0, limit[1] / 2],
            limited=1,
            armature=_GRIPPER.armature,
            damping=2,
        )
        finger.add_geom(
            type=_GEOM.mjGEOM_BOX,
            size=[0.011, 0.005, 0.022],
            pos=[0, sign * 0.006, 0.087],
            material="dark",
            mass=0.02,
            **touch,
        )
        finger.add_geom(
            name=f"{name}_pad",
            type=_GEOM.mjGEOM_BOX,
            size=[0.011, 0.004, 0.015],
            pos=[0, sign * 0.004, TIP - 0.015],
            material="rubber",
            mass=0.01,
            **touch,
            **_PAD,
        )
    spec.add_equality(
        type=mujoco.mjtEq.mjEQ_JOINT,
        name=f"{side}_fingers",
        name1=fingers[0],
        name2=fingers[1],
        objtype=mujoco.mjtObj.mjOBJ_JOINT,
        data=[0, 1] + [0] * 10,
        solref=[0.005, 1],
    )
    opening = spec.add_tendon(name=gripper)  # the servo moves the sum of both fingers: the opening
    for name in fingers:
        opening.wrap_joint(name, 1)
    _add_servo(spec, gripper, mujoco.mjtTrn.mjTRN_TENDON, _GRIPPER, limit)
