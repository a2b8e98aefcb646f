"""What the control loop needs of a robot, real or simulated."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Protocol

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.core.records import Trial
from holdfast.embodiments.embodiment import Embodiment
from holdfast.robots.limits import Workspace


class FaultError(HoldfastError):
    """The robot cannot go on: an arm reports an error or is silent, a camera gives no picture."""


class Robot(Protocol):
    """A connected robot. Poses are in the embodiment's order and units; images are uint8 (height, width, 3).

    A simulated robot resets and scores itself. With a real one an operator lays out the scene and starts every attempt,
    and people score the videos later. The defaults are those of a real one, for classes that inherit this one. A class
    that lacks what has no default is refused before anything is connected.

    `--robot` makes one of its class, with the path that `--config` gives, and that connects it. What a policy must fit,
    `embodiment` and `rate`, is known before: it belongs to the class.
    """

    embodiment: Embodiment
    rate: int  # control steps a second
    workspace: Workspace | None = None  # where the hands stay; known for PiPER-X pairs only
    resets_itself: bool = False  # `begin` lays the scene out and puts the arms back
    level: str = ""  # how far objects stray from their places in a simulated scene
    needs_config: bool = False  # whether it is described by a file of its own

    def __init__(self, config: Path | None) -> None:
        """Connect."""

    def begin(self, seed: int) -> None:
        """Prepare for an attempt. Where the robot resets itself, the seed decides the layout."""

    @abstractmethod
    def observe(self) -> Observation:
        """The measured pose, and what the policy's cameras see."""

    @abstractmethod
    def send(self, pose: np.ndarray) -> None:
        """Move towards a pose that has passed the limits. Does not wait for the arms to get there."""

    @abstractmethod
    def stop(self) -> None:
        """Hold the last command, grippers included. May be called at any time and more than once."""

    @abstractmethod
    def picture(self) -> np.ndarray:
        """A frame of the attempt's video: (height, width, 3), height and width even."""

    @property
    def over(self) -> bool:
        """Whether the attempt is over, by success or because the task's time is up; always false on a real robot."""
        return False

    def trial(self, stage: int) -> Trial | None:
        """The attempt so far with its score; None where people score it."""
        return None

    def close(self) -> None:
        """Release the hardware or the simulator."""
