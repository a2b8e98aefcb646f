"""Two PiPER-X arms and their cameras as a LeRobot robot, for LeRobot's commands and for `holdfast rollout`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from lerobot.cameras.utils import make_cameras_from_configs
from lerobot.robots.robot import Robot

from holdfast.core.clock import STEADY, UNIX, Clock
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.arm import PiperArm
from holdfast.robots.config_piper import PiperPairConfig
from holdfast.robots.limits import Command, Limits
from holdfast.robots.robot import FaultError

_FRESH = 200  # ms: older pictures count as missing
_RATE = 30  # control steps a second, for which the embodiment's fastest step is meant
_SAVED = 2  # control steps: a command that comes late makes up for one that comes early


class PiperPair(Robot):
    """Joints have the embodiment's names, in rad and m. Every action passes the limits, whoever sends it."""

    config_class = PiperPairConfig
    name = "piper_pair"

    def __init__(self, config: PiperPairConfig, clock: Clock = UNIX, pace: Clock = STEADY) -> None:
        """Describe the pair; `connect` opens it.

        Args:
            config: Ports, cameras, workspace.
            clock: Unix time, as the SDK stamps messages with it.
            pace: Tells how much of a control step has passed between two commands.
        """
        super().__init__(config)
        self.config = config
        self._body = EMBODIMENTS["piper_x_pair"]
        self._limits = Limits(self._body, config.workspace)
        ports = {"left": config.left_port, "right": config.right_port}
        self._arms = PiperArm.both(self._body, ports, config.bus, clock)
        self._last: Command | None = None
        self._pace, self._sent, self._saved = pace, 0.0, 0.0
        self.cameras = make_cameras_from_configs(config.cameras)

    @cached_property
    def observation_features(self) -> dict[str, Any]:
        """Joints and images."""
        images = {name: (camera.height, camera.width, 3) for name, camera in self.config.cameras.items()}
        return {**self.action_features, **images}

    @cached_property
    def action_features(self) -> dict[str, Any]:
        """Joints."""
        return dict.fromkeys(self._body.names, float)

    @property
    def is_connected(self) -> bool:
        """Whether both arms and all cameras are there."""
        return all(arm.connected for arm in self._arms) and all(c.is_connected for c in self.cameras.values())

    @property
    def is_calibrated(self) -> bool:
        """The arms know their zero."""
        return True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do: modes are set with every command."""

    def connect(self, calibrate: bool = True) -> None:
        """Open cameras and arms; the motors are switched on without moving."""
        try:
            for camera in self.cameras.values():
                camera.connect()
            for arm in self._arms:
                arm.connect()
            self._last = self._limits.start(self._pose())
            self._sent, self._saved = self._pace.now(), 1.0
        except BaseException:
            self.disconnect()
            raise

    def get_observation(self) -> dict[str, Any]:
        """The measured pose and the latest pictures; waits for neither."""
        seen: dict[str, Any] = dict(zip(self._body.names, self._pose().tolist(), strict=True))
        for name, camera in self.cameras.items():
            try:
                seen[name] = camera.read_latest(max_age_ms=_FRESH)
            except (TimeoutError, RuntimeError) as error:
                raise FaultError(f"Camera {name!r} gives no picture: {error}") from None
        return seen

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Send the nearest permitted action, and return it."""
        assert self._last is not None, "connect first"
        wanted = np.array([float(action[name]) for name in self._body.names])
        self._last = self._limits.step(self._last, self._pose(), wanted, self._part())
        for i, arm in enumerate(self._arms):
            arm.send(self._last.pose[7 * i : 7 * i + 7])
        return dict(zip(self._body.names, self._last.pose.tolist(), strict=True))

    def emergency_stop(self) -> None:
        """The arms' own quick stop. They must be reset afterwards, and fall when they are."""
        for arm in self._arms:
            if arm.connected:
                arm.emergency_stop()

    def disconnect(self) -> None:
        """Close what is open. The arms hold their pose, unless the config says to switch the torque off."""
        for arm in self._arms:
            arm.disconnect(self.config.disable_torque_on_disconnect)
        for camera in self.cameras.values():
            if camera.is_connected:
                camera.disconnect()
        self._last = None

    def _part(self) -> float:
        """The part of a control step that a command may use, so that sending more often does not move faster."""
        now = self._pace.now()
        self._saved = min(self._saved + (now - self._sent) * _RATE, _SAVED)
        part = min(self._saved, 1.0)
        self._sent, self._saved = now, self._saved - part
        return part

    def _pose(self) -> np.ndarray:
        return np.concatenate([arm.pose() for arm in self._arms])
