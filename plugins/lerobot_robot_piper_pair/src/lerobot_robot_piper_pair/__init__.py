"""LeRobot imports this package by its name's prefix; importing registers the arms as `--robot.type=piper_pair`."""

from holdfast.robots.config_piper import PiperPairConfig
from holdfast.robots.piper import PiperPair

__all__ = ["PiperPair", "PiperPairConfig"]
