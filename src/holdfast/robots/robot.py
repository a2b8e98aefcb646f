"""What the loop asks of a robot, real or simulated: to see, to be told, to stand still."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.embodiments.embodiment import Embodiment


class FaultError(HoldfastError):
    """The robot itself cannot go on: an arm reports an error or is silent, a camera gives no picture."""


class Robot(Protocol):
    """A robot ready to act. Poses are in the embodiment's order and units; images are (height, width, 3) bytes."""

    embodiment: Embodiment
    rate: int  # control steps a second

    def begin(self, seed: int) -> None:
        """Prepare for an attempt; a simulated robot lays its scene out by the seed."""

    def observe(self) -> Observation:
        """The measured pose, and what the policy's cameras see."""

    def send(self, pose: np.ndarray) -> None:
        """Move towards a pose that the limits have passed; returns at once, or after a simulated control step."""

    def stop(self) -> None:
        """Stand still where the last command leads, hands as they are. May be called at any time, more than once."""

    def picture(self) -> np.ndarray:
        """What a person is shown: (height, width, 3), both even."""

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do; real robots never know."""

    def close(self) -> None:
        """Let go of the hardware."""
