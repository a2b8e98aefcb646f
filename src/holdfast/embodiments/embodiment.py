"""A robot as data: what each action dimension is called and means, which arm it moves, how far and how fast it goes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from holdfast.core.errors import HoldfastError, unknown

Kind = Literal["joint", "gripper", "target", "delta", "velocity", "binary"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TARGETS: tuple[Kind, ...] = ("joint", "gripper", "target")


@dataclass(frozen=True)
class Dimension:
    """One number of the action and, of a target, of the state that measures it.

    The kind says what the number means. Targets are where to go: `joint` (rad), `gripper` (m), `target` for any other.
    `delta` is an increment; `velocity` a speed or an effort, which lasts for one control step; `binary` a switch
    between `lower` and `upper`. No state is ever subtracted from these three; an increment or velocity of 0 means to
    stay.

    `lower` and `upper` are the limits of a command. `step` is how far a brisk teleoperator moves it in one control
    step, `fastest` the farthest that a command may (0 means twice `step`); for increments and velocities they are the
    usual and the largest command, and of a binary one they mean nothing. A control step is the run's: if a stream takes
    every n-th frame of a dataset, an increment is the sum of n.
    """

    name: str
    arm: str
    kind: Kind
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
            raise unknown("dimension kind", self.kind, KINDS)
        if self.kind in ("delta", "velocity") and not self.lower <= 0 <= self.upper:
            raise HoldfastError(
                f"Dimension {self.name!r} of kind {self.kind!r} needs lower <= 0 <= upper, so that it can stay; got "
                f"{self.lower} and {self.upper}."
            )
        if not self.fastest:
            object.__setattr__(self, "fastest", 2 * self.step)


@dataclass(frozen=True)
class StateDimension:
    """One number of a state that has dimensions of its own, with the range of its values."""

    name: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise HoldfastError(f"State {self.name!r} needs finite lower < upper, got {self.lower} and {self.upper}.")


@dataclass(frozen=True)
class Embodiment:
    """The dimensions of a robot's action, in the order in which its datasets store them.

    `states` are those of the state, in its order, where it has others than the action or other ranges. Without them
    only the state dimensions that measure a target have a range: the target's.
    """

    name: str
    dimensions: tuple[Dimension, ...]
    states: tuple[StateDimension, ...] = ()

    def __post_init__(self) -> None:
        names, states = self.names, [state.name for state in self.states]
        if not names or len(set(names)) != len(names) or len(set(states)) != len(states):
            raise HoldfastError(
                f"Embodiment {self.name!r} needs dimensions of different names, got {[*names, *states]}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions in order."""
        return tuple(d.name for d in self.dimensions)

    @property
    def arms(self) -> tuple[str, ...]:
        """The robot's arms in order of their first dimension."""
        return tuple(dict.fromkeys(d.arm for d in self.dimensions))

    def of_kind(self, *kinds: Kind) -> np.ndarray:
        """Mask of the dimensions of these kinds."""
        return np.array([d.kind in kinds for d in self.dimensions])

    def active(self, arms: Iterable[str]) -> np.ndarray:
        """Boolean mask of the dimensions that belong to `arms`."""
        wanted = set(arms)
        for arm in wanted - set(self.arms):
            raise unknown(f"arm of embodiment {self.name!r}", arm, self.arms)
        return np.array([d.arm in wanted for d in self.dimensions])

    def measured_by(self, names: Sequence[str], state_names: Sequence[str]) -> np.ndarray:
        """The state dimension that measures each target of a dataset with these names, or -1; -1 for other kinds.

        They belong together by name: by the embodiment's names where it describes the state, else by the dataset's,
        else by the embodiment's for the action and the dataset's for the state.
        """
        known = [state.name for state in self.states] or list(state_names)
        places = []
        for dimension, name in zip(self.dimensions, names, strict=True):
            asked = name if name in known and not self.states else dimension.name
            places.append(known.index(asked) if dimension.kind in TARGETS and asked in known else -1)
        return np.array(places)

    def pose(self, state: np.ndarray, places: np.ndarray) -> np.ndarray:
        """The measured value of every target, from a state and `measured_by`; NaN where nothing measures one."""
        return np.where(places >= 0, state[..., places], np.full((), np.nan, state.dtype))

    def still(self, command: np.ndarray) -> np.ndarray:
        """The command that keeps the robot where the last one has brought it: increments and velocities are 0."""
        return np.where(self.of_kind("delta", "velocity"), np.zeros((), command.dtype), command)

    def hold(self, actions: np.ndarray, pose: np.ndarray, arms: Iterable[str]) -> np.ndarray:
        """Actions (..., dimensions) of a task that uses `arms`, with every other arm held at `pose`.

        An increment or velocity is held at 0. Where the pose is not known (NaN) the action stays as it is.
        """
        held = self.still(pose)
        return np.where(self.active(arms) | np.isnan(held), actions, held)

    def hold_idle(
        self,
        actions: np.ndarray,
        state: np.ndarray,
        names: Sequence[str],
        state_names: Sequence[str],
        arms: Iterable[str],
    ) -> np.ndarray:
        """The same, with the pose that a state measures; `names` are those of the actions."""
        return self.hold(actions, self.pose(state, self.measured_by(names, state_names)), arms)

    def state_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper limit of every dimension of the action, and of the state that measures it."""
        return np.array([d.lower for d in self.dimensions]), np.array([d.upper for d in self.dimensions])

    def action_range(self, relative: np.ndarray, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """Range of an action; for a relative one, the distance covered in a chunk of control steps."""
        lower, upper = self.state_range()
        reach = np.array([d.step for d in self.dimensions]) * chunk
        return np.where(relative, -reach, lower), np.where(relative, reach, upper)
