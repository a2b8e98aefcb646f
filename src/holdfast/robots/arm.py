"""One PiPER-X arm on a CAN port, in radians and metres. The maker's SDK counts in 0.001 degrees and 0.001 mm.

Never tried on a real arm: the tests run the SDK on a virtual bus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast.core.clock import UNIX, Clock
from holdfast.core.errors import HoldfastError
from holdfast.embodiments.embodiment import Dimension
from holdfast.robots.robot import FaultError

_MILLIDEGREES = 1000 * 180 / math.pi  # in a radian
_MICROMETRES = 1e6  # in a metre
_ALL = 7  # motors
_CAN, _MOVE_J, _FULL_SPEED, _POSITION = 0x01, 0x01, 100, 0x00  # the limits take care of speed
_GRIPPER_ON, _GRIPPER_CLEAR = 0x01, 0x02
_EFFORT = 1000  # of a gripper, 0.001 N m
_QUICK_STOP = 0x01
_SILENCE = 0.2  # seconds without a message after which an arm counts as lost
_TROUBLES = (
    "voltage_too_low",
    "motor_overheating",
    "driver_overcurrent",
    "driver_overheating",
    "collision_status",
    "driver_error_status",
    "stall_status",
)


class PiperArm:
    """Six joints and a gripper."""

    def __init__(self, port: str, dimensions: Sequence[Dimension], bus: str = "socketcan", clock: Clock = UNIX) -> None:
        """Describe the arm; `connect` opens its port.

        Args:
            port: CAN port, like can_left.
            dimensions: Its six joints and its gripper, with their limits.
            bus: Kind of bus, as python-can names it.
            clock: Unix time, as the SDK stamps messages with it.
        """
        self._port, self._bus, self._clock = port, bus, clock
        self._scale = np.array([_MILLIDEGREES if d.kind == "joint" else _MICROMETRES for d in dimensions])
        # Rounded inwards, so that rounding never exceeds a limit.
        self._lower = np.ceil([d.lower * s - 1e-9 for d, s in zip(dimensions, self._scale, strict=True)])
        self._upper = np.floor([d.upper * s + 1e-9 for d, s in zip(dimensions, self._scale, strict=True)])
        self._sdk: Any = None

    @property
    def connected(self) -> bool:
        """Whether the port is open."""
        return self._sdk is not None

    def connect(self, seconds: float = 5.0) -> None:
        """Open the port, switch the motors on where they stand, and put the arm under joint control."""
        sdk = self._open()
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
        return np.array([*(getattr(joints, f"joint_{i}") for i in range(1, 7)), opening]) / self._scale

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
        if (silence := self._clock.now() - self._heard(self._sdk)) > _SILENCE:
            return f"has said nothing for {silence:.1f} s"
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

    def _open(self) -> Any:
        try:
            from piper_sdk import C_PiperInterface_V2
        except ImportError:
            raise HoldfastError("The arms need the maker's SDK. Run: pip install 'holdfast[piper]'") from None
        real = self._bus == "socketcan"
        sdk = C_PiperInterface_V2(self._port, judge_flag=False, can_auto_init=False)
        try:
            sdk.CreateCanBus(self._port, bustype=self._bus, judge_flag=real)
        except ConnectionError:
            raise HoldfastError(
                f"CAN port {self._port} is not up at 1 Mbit/s. Run: sudo ip link set {self._port} up type can bitrate "
                "1000000 (docs/robots.md tells how ports get their names)."
            ) from None
        sdk.ConnectPort(can_init=True)
        return sdk

    @staticmethod
    def _enabled(sdk: Any) -> bool:
        sdk.EnableArm(_ALL)
        return all(sdk.GetArmEnableStatus())

    @staticmethod
    def _heard(sdk: Any) -> float:
        """Unix time of the oldest of the latest messages about joints, gripper and status."""
        latest = (sdk.GetArmJointMsgs(), sdk.GetArmGripperMsgs(), sdk.GetArmStatus())
        return min(float(message.time_stamp) for message in latest)

    def _until(self, condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
        until = self._clock.now() + seconds
        while not condition():
            if self._clock.now() > until:
                raise HoldfastError(f"The arm on {self._port} {otherwise}")
            self._clock.sleep(0.02)
