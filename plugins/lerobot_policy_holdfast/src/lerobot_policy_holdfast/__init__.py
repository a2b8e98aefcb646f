"""LeRobot imports this package by its name's prefix; importing registers Holdfast's policies with it."""

from holdfast.policies.nano.configuration_nano import NanoConfig

__all__ = ["NanoConfig"]
