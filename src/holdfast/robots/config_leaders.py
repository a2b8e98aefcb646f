"""Config of two PiPER-X leaders for LeRobot's commands: `--teleop.type=piper_leaders`."""

from __future__ import annotations

from dataclasses import dataclass

from lerobot.teleoperators.config import TeleoperatorConfig


@TeleoperatorConfig.register_subclass("piper_leaders")
@dataclass(kw_only=True)
class PiperLeadersConfig(TeleoperatorConfig):
    """Two leaders, each on a CAN port of its own, apart from those of the arms that follow them."""

    left_port: str = "can_left_lead"  # Linux allows 15 characters
    right_port: str = "can_right_lead"
    bus: str = "socketcan"
