"""Config of a PiPER-X pair for LeRobot's commands: `--robot.type=piper_pair --robot.left_port=can_left`."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.cameras import CameraConfig
from lerobot.robots.config import RobotConfig

from holdfast.robots.limits import Workspace


@RobotConfig.register_subclass("piper_pair")
@dataclass(kw_only=True)
class PiperPairConfig(RobotConfig):
    """Two arms, each on its own CAN port, and any of LeRobot's cameras."""

    left_port: str = "can_left"
    right_port: str = "can_right"
    bus: str = "socketcan"
    cameras: dict[str, CameraConfig] = field(default_factory=dict)
    workspace: Workspace = field(default_factory=Workspace)
    disable_torque_on_disconnect: bool = False  # arms without torque fall
