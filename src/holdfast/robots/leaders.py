"""Two PiPER-X arms that people move by hand, as a LeRobot teleoperator: `lerobot-record`, `lerobot-teleoperate`.

An arm in leader mode is free to move and sends the targets that an arm on the same bus would obey. Here every leader
has a bus of its own and is only listened to, so that its targets reach the followers through the robot's limits.

Never tried on a real arm: the tests run the SDK on a virtual bus.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from lerobot.teleoperators.teleoperator import Teleoperator
from lerobot.utils.decorators import check_if_already_connected, check_if_not_connected

from holdfast.core.clock import UNIX, Clock
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.config_leaders import PiperLeadersConfig
from holdfast.robots.port import PiperPort
from holdfast.robots.robot import FaultError

_RATED = 0.2  # seconds after which the SDK's rate is that of this connection


class LeaderArm(PiperPort):
    """An arm in leader mode. Nothing is ever sent to it."""

    _begun = 0.0

    def connect(self, seconds: float = 5.0) -> None:
        """Open the port and wait for a whole pose."""
        sdk = self._open(ask=False)
        begun = self._clock.now()  # messages of an earlier connection do not count
        try:
            # The SDK's rate is above 0 where all joints were heard. One that was not has its old angle, or 0.
            self._until(
                lambda: sdk.GetArmJointCtrl().Hz > 0 and self._heard(sdk) > begun + _RATED,
                seconds,
                "sends no targets. Is it powered, wired and in leader mode? See docs/robots.md.",
            )
        except BaseException:
            sdk.DisconnectPort()
            raise
        self._sdk, self._begun = sdk, begun

    def pose(self) -> np.ndarray:
        """The joints and the opening that it asks for; `FaultError` where it is silent or another arm obeys it."""
        if silence := self._silence():
            raise FaultError(f"The leader on {self._port} {silence}.")
        if self._sdk.GetArmJointMsgs().time_stamp > self._begun:  # a leader reports no joints
            raise FaultError(
                f"On {self._port} an arm obeys the leader directly, without limits. Give every arm its own CAN adapter."
            )
        joints, gripper = self._sdk.GetArmJointCtrl().joint_ctrl, self._sdk.GetArmGripperCtrl().gripper_ctrl
        return self._in_units(joints, gripper.grippers_angle)

    def disconnect(self) -> None:
        """Close the port. The arm stays as it is."""
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            sdk.DisconnectPort()

    @staticmethod
    def _heard(sdk: Any) -> float:
        """Of the targets for joints and gripper."""
        return min(float(message.time_stamp) for message in (sdk.GetArmJointCtrl(), sdk.GetArmGripperCtrl()))


class PiperLeaders(Teleoperator):
    """Actions have the names and units of `PiperPair`. Leaders need no calibration and take no feedback."""

    config_class = PiperLeadersConfig
    name = "piper_leaders"

    def __init__(self, config: PiperLeadersConfig, clock: Clock = UNIX) -> None:
        super().__init__(config)
        self.config = config
        self._body = EMBODIMENTS["piper_x_pair"]
        ports = {"left": config.left_port, "right": config.right_port}
        self._arms = LeaderArm.both(self._body, ports, config.bus, clock)

    @cached_property
    def action_features(self) -> dict[str, Any]:
        """Joints."""
        return dict.fromkeys(self._body.names, float)

    @property
    def feedback_features(self) -> dict[str, Any]:
        """None."""
        return {}

    @property
    def is_connected(self) -> bool:
        """Whether both leaders are there."""
        return all(arm.connected for arm in self._arms)

    @property
    def is_calibrated(self) -> bool:
        """The arms know their zero."""
        return True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do: an arm keeps its mode."""

    @check_if_already_connected
    def connect(self, calibrate: bool = True) -> None:
        """Listen to both leaders."""
        try:
            for arm in self._arms:
                arm.connect()
            self.get_action()
        except BaseException:
            self.disconnect()
            raise

    @check_if_not_connected
    def get_action(self) -> dict[str, Any]:
        """The pose of the leaders, clipped to the joint limits, since `lerobot-record` stores it as it is."""
        pose = np.concatenate([arm.pose() for arm in self._arms])
        return dict(zip(self._body.names, np.clip(pose, *self._body.state_range()).tolist(), strict=True))

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """Nothing to do."""

    def disconnect(self) -> None:
        """Stop listening."""
        for arm in self._arms:
            arm.disconnect()
