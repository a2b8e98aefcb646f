"""LeRobot imports this package by its name's prefix; importing registers Holdfast's policies with it."""

from holdfast.policies.nano.configuration_nano import NanoConfig
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig

__all__ = ["NanoConfig", "Pi05FastConfig"]
