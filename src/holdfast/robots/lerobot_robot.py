"""A LeRobot robot behind our protocol, and the PiPER-X pair that a TOML file describes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.observation import Observation
from holdfast.core.outside import read_toml
from holdfast.embodiments import EMBODIMENTS
from holdfast.robots.limits import Workspace
from holdfast.robots.robot import FaultError, Robot

if TYPE_CHECKING:
    from lerobot.robots.robot import Robot as Device

    from holdfast.robots.piper import PiperPair

_SHOWN = 2  # cameras
_SHOWN_SIZE = (320, 240)
_KEYS = ("left_port", "right_port", "width", "height", "cameras", "workspace")


class LeRobotRobot(Robot):
    """A LeRobot robot whose joints have the embodiment's names. A class of one sets `embodiment` and `rate`."""

    def __init__(self, device: Device) -> None:
        """Connect `device`, LeRobot's robot."""
        self._device = device
        self._images: dict[str, np.ndarray] = {}
        self._last: np.ndarray | None = None
        device.connect()

    def begin(self, seed: int) -> None:
        """Nothing to do: the operator lays out the scene."""

    def observe(self) -> Observation:
        """Measured joints, and images as the cameras give them."""
        try:
            seen = self._device.get_observation()
        except OSError as error:  # LeRobot's cameras raise it when a cable comes loose
            raise FaultError(f"The robot cannot be read: {error}.") from None
        names = self.embodiment.names
        self._images = {name: value for name, value in seen.items() if name not in names}
        return Observation(np.array([seen[name] for name in names], float), dict(self._images))

    def send(self, pose: np.ndarray) -> None:
        """Send a pose."""
        self._last = pose
        self._device.send_action(dict(zip(self.embodiment.names, pose.tolist(), strict=True)))

    def stop(self) -> None:
        """Send the last pose again. An arm that cannot be reached has it already."""
        if self._last is not None:
            with suppress(FaultError):
                self.send(self.embodiment.still(self._last))

    def picture(self) -> np.ndarray:
        """The latest images of the first two cameras, side by side."""
        views = list(self._images.values())[:_SHOWN] or [np.zeros((*_SHOWN_SIZE[::-1], 3), np.uint8)]
        return np.hstack([np.asarray(Image.fromarray(view).resize(_SHOWN_SIZE)) for view in views])

    def close(self) -> None:
        """Disconnect."""
        self._device.disconnect()


class PiperRobot(LeRobotRobot):
    """The PiPER-X pair that a TOML file describes."""

    embodiment = EMBODIMENTS["piper_x_pair"]
    rate = 30
    needs_config = True

    def __init__(self, config: Path | None) -> None:
        """Connect the pair of the file `config`."""
        assert config is not None
        device = _pair(config)
        self.workspace = device.config.workspace
        super().__init__(device)


def _pair(path: Path) -> PiperPair:
    """The pair that a file describes, not connected yet."""
    from lerobot.cameras.realsense.configuration_realsense import RealSenseCameraConfig

    from holdfast.robots.config_piper import PiperPairConfig
    from holdfast.robots.piper import PiperPair

    content = _read(path)
    width, height = content.get("width", 640), content.get("height", 480)
    try:
        cameras = {
            name: RealSenseCameraConfig(str(serial), fps=30, width=width, height=height)
            for name, serial in content["cameras"].items()
        }
        corners: dict[str, Any] = {key: tuple(map(float, xyz)) for key, xyz in content.get("workspace", {}).items()}
        ports: dict[str, Any] = {key: str(content[key]) for key in ("left_port", "right_port") if key in content}
        config = PiperPairConfig(cameras=cameras, workspace=Workspace(**corners), **ports)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HoldfastError(
            f"{path} cannot be used ({error!r}). It names [cameras] with their serial numbers, and may set left_port, "
            "right_port, width, height, and low and high of [workspace]; see docs/robots.md."
        ) from None
    try:
        return PiperPair(config)
    except ImportError as error:
        raise HoldfastError(f"The cameras need more packages ({error}). Run: pip install 'holdfast[piper]'") from None


def _read(path: Path) -> dict[str, Any]:
    content = read_toml(path)
    for key in content:
        if key not in _KEYS:
            raise unknown(f"key of {path}", key, _KEYS)
    return content
