"""LeRobot imports this package by its name's prefix; importing registers the twin as `--env.type=holdfast_twin`."""

from holdfast.twin.env_config import HoldfastTwinConfig

__all__ = ["HoldfastTwinConfig"]
