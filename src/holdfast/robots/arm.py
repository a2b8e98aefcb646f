"""One PiPER-X arm on a CAN port, in radians and metres.

Never tried on a real arm: the tests run the SDK on a virtual bus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.core.clock import UNIX, Clock
from holdfast.core.errors import HoldfastError
from holdfast.embodiments.embodiment import Dimension
from holdfast.robots.port import PiperPort
from holdfast.robots.robot import FaultError

_ALL = 7  # motors
_CAN, _MOVE_J, _FULL_SPEED, _POSITION = 0x01, 0x01, 100, 0x00  # the limits take care of speed
_GRIPPER_ON, _GRIPPER_CLEAR = 0x01, 0x02
_EFFORT = 1000  # of a gripper, 0.001 N m
_QUICK_STOP = 0x01
_TROUBLES = (
    "voltage_too_low",
    "motor_overheating",
    "driver_overcurrent",
    "driver_overheating",
    "collision_status",
    "driver_error_status",
    "stall_status",
)


class PiperArm(PiperPort):
    """Six joints and a gripper."""

    def __init__(self, port: str, dimensions: Sequence[Dimension], bus: str = "socketcan", clock: Clock = UNIX) -> None:
        """See `PiperPort`."""
        super().__init__(port, dimensions, bus, clock)
        # Rounded inwards, so that rounding never exceeds a limit.
        self._lower = np.ceil([d.lower * s - 1e-9 for d, s in zip(dimensions, self._scale, strict=True)])
        self._upper = np.floor([d.upper * s + 1e-9 for d, s in zip(dimensions, self._scale, strict=True)])

    def connect(self, seconds: float = 5.0) -> None:
        """Open the port, switch the motors on where they stand, and put the arm under joint control."""
        sdk = self._open(ask=True)
        try:
            begun = self._clock.now()  # messages of an earlier connection do not count
            self._until(
                lambda: min(self._heard(sdk), sdk.GetArmLowSpdInfoMsgs().time_stamp) > begun,
                seconds,
                "says nothing. Is it powered and wired?",
            )
            self._until(lambda: self._enabled(sdk), seconds, "does not switch its motors on. Is its stop pressed?")
            opening = sdk.GetArmGripperMsgs().gripper_state.grippers_angle
            sdk.GripperCtrl(max(0, opening), _EFFORT, _GRIPPER_CLEAR, 0)
            sdk.GripperCtrl(max(0, opening), _EFFORT, _GRIPPER_ON, 0)
        except BaseException:
            sdk.DisconnectPort()
            raise
        self._sdk = sdk

    def pose(self) -> np.ndarray:
        """The measured joints and opening; `FaultError` where the arm is silent or reports an error."""
        fault = self.fault()
        if fault:
            raise FaultError(f"The arm on {self._port} {fault}.")
        joints = self._sdk.GetArmJointMsgs().joint_state
        opening = self._sdk.GetArmGripperMsgs().gripper_state.grippers_angle
        return self._in_units(joints, opening)

    def send(self, pose: np.ndarray) -> None:
        """Move towards a pose, clipped to the joint limits."""
        if not np.isfinite(pose).all():
            raise HoldfastError(f"A pose is finite numbers, got {pose}.")
        *joints, opening = (int(n) for n in np.clip(np.rint(pose * self._scale), self._lower, self._upper))
        self._sdk.MotionCtrl_2(_CAN, _MOVE_J, _FULL_SPEED, _POSITION)
        self._sdk.JointCtrl(*joints)
        self._sdk.GripperCtrl(opening, _EFFORT, _GRIPPER_ON, 0)

    def fault(self) -> str:
        """What is wrong with the arm, in words; empty if nothing is."""
        if silence := self._silence():
            return silence
        status = self._sdk.GetArmStatus().arm_status
        if int(status.arm_status):
            return f"reports {status.arm_status.name.lower().replace('_', ' ')}"
        wrong = [name for name, on in vars(status.err_status).items() if on]
        motors = self._sdk.GetArmLowSpdInfoMsgs()
        for i in range(1, 7):
            state = getattr(motors, f"motor_{i}").foc_status
            wrong += [f"{name} of motor {i}" for name in _TROUBLES if getattr(state, name)]
            wrong += [] if state.driver_enable_status else [f"motor {i} switched off"]
        return f"reports {', '.join(wrong).replace('_', ' ')}" if wrong else ""

    def emergency_stop(self) -> None:
        """The arm's own quick stop. It ignores commands until it is reset, and falls when it is: support it first."""
        self._sdk.EmergencyStop(_QUICK_STOP)

    def disconnect(self, limp: bool) -> None:
        """Close the port. The motors stay on and hold the arm up, unless `limp`: then it falls, so support it."""
        sdk, self._sdk = self._sdk, None
        if sdk is None:
            return
        if limp:
            sdk.GripperCtrl(0, 0, 0x00, 0)
            sdk.DisableArm(_ALL)
        sdk.DisconnectPort()

    @staticmethod
    def _enabled(sdk: Any) -> bool:
        sdk.EnableArm(_ALL)
        return all(sdk.GetArmEnableStatus())

    @staticmethod
    def _heard(sdk: Any) -> float:
        """Of the messages about joints, gripper and status."""
        latest = (sdk.GetArmJointMsgs(), sdk.GetArmGripperMsgs(), sdk.GetArmStatus())
        return min(float(message.time_stamp) for message in latest)
