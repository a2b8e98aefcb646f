"""A robot as data: what each action dimension is called, which arm it moves, and how far and how fast it may go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from holdfast.core.errors import HoldfastError, unknown

KINDS = ("joint", "gripper", "delta")


@dataclass(frozen=True)
class Dimension:
    """One number of the action, and of the state that measures it.

    `lower` and `upper` are in rad (joints) or m (grippers); `step` is how far a brisk teleoperator moves it in one
    control step, `fastest` the largest command per step (0 means twice `step`). A dimension of kind `delta` is an
    increment: its limits are those of one command, no state is ever subtracted from it, and an idle one is sent 0.
    """

    name: str
    arm: str
    kind: Literal["joint", "gripper", "delta"]
    lower: float
    upper: float
    step: float
    fastest: float = 0.0

    def __post_init__(self) -> None:
        finite = all(map(math.isfinite, (self.lower, self.upper, self.step, self.fastest)))
        if not (finite and self.lower < self.upper and self.step > 0 and self.fastest >= 0):
            raise HoldfastError(
                f"Dimension {self.name!r} needs finite lower < upper, step > 0 and fastest >= 0, "
                f"got {self.lower}, {self.upper}, {self.step} and {self.fastest}."
            )
        if self.kind not in KINDS:
            raise unknown("kind of dimension", self.kind, KINDS)
        if not self.fastest:
            object.__setattr__(self, "fastest", 2 * self.step)


@dataclass(frozen=True)
class Embodiment:
    """The dimensions of a robot's action, in the order in which its datasets store them."""

    name: str
    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        names = self.names
        if not names or len(set(names)) != len(names):
            raise HoldfastError(f"Embodiment {self.name!r} needs dimensions of different names, got {list(names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions in order."""
        return tuple(d.name for d in self.dimensions)

    @property
    def arms(self) -> tuple[str, ...]:
        """The robot's arms in order of their first dimension."""
        return tuple(dict.fromkeys(d.arm for d in self.dimensions))

    @property
    def delta(self) -> np.ndarray:
        """Mask of the dimensions that are increments."""
        return np.array([d.kind == "delta" for d in self.dimensions])

    def active(self, arms: Iterable[str]) -> np.ndarray:
        """Boolean mask of the dimensions that belong to `arms`."""
        wanted = set(arms)
        for arm in wanted - set(self.arms):
            raise unknown(f"arm of embodiment {self.name!r}", arm, self.arms)
        return np.array([d.arm in wanted for d in self.dimensions])

    def pose(self, state: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """The measured value of every dimension, from a state with these names; NaN where nothing measures it."""
        if tuple(names) == self.names:
            return state
        measured = dict(zip(names, state, strict=True))
        return np.array([measured.get(name, np.nan) for name in self.names], dtype=state.dtype)

    def hold(self, actions: np.ndarray, pose: np.ndarray, arms: Iterable[str]) -> np.ndarray:
        """Actions (..., dimensions) of a task that uses `arms`, with every other arm held at `pose`.

        An increment is held at 0.
        """
        return np.where(self.active(arms), actions, np.where(self.delta, np.zeros((), pose.dtype), pose))

    def hold_idle(
        self, actions: np.ndarray, state: np.ndarray, names: Sequence[str], arms: Iterable[str]
    ) -> np.ndarray:
        """The same, with the pose of a state with these names; where it measures nothing, the action stays."""
        pose = self.pose(state, names)
        return np.where(np.isnan(pose) & ~self.delta, actions, self.hold(actions, pose, arms))

    def state_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper limit of every dimension."""
        return np.array([d.lower for d in self.dimensions]), np.array([d.upper for d in self.dimensions])

    def action_range(self, relative: np.ndarray, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """Range of an action; for a relative one, the distance covered in a chunk of control steps."""
        lower, upper = self.state_range()
        reach = np.array([d.step for d in self.dimensions]) * chunk
        return np.where(relative, -reach, lower), np.where(relative, reach, upper)
