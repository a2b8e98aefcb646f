"""What every task of the twin provides: objects, their placement, a scorer, and scripts that solve it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import mujoco
import numpy as np

from holdfast.catalog import task as catalog_task
from holdfast.core.records import Task
from holdfast.twin.cell import CONTROL_HZ
from holdfast.twin.expert import Drivers, Scripts
from holdfast.twin.world import World

# Spread of the objects around the nominal layout, as a multiple of each task's own spread.
LEVELS = {"nominal": 0.0, "easy": 0.5, "standard": 1.0, "wide": 1.4}
CALM = CONTROL_HZ // 2  # control steps for which a result must hold to count as final: half a second


class Spread:
    """Draws one layout: every value lies within the task's half width, scaled by the level."""

    def __init__(self, rng: np.random.Generator, level: str) -> None:
        self._rng, self._scale = rng, LEVELS[level]

    def number(self, half: float) -> float:
        """A number from -half to half, for example an angle."""
        return float(self._rng.uniform(-1, 1) * half * self._scale)

    def xy(self, centre: Sequence[float], half: float) -> np.ndarray:
        """A point of the table, at most `half` from a centre along each axis."""
        return np.asarray(centre, float) + self._rng.uniform(-1, 1, 2) * half * self._scale

    def apart(self, centres: Sequence[Sequence[float]], half: float, gap: float) -> list[np.ndarray]:
        """One point for each centre, all of them at least `gap` from each other."""
        while True:
            points = [self.xy(centre, half) for centre in centres]
            pairs = [(p, q) for i, p in enumerate(points) for q in points[:i]]
            if all(np.linalg.norm(p - q) >= gap for p, q in pairs):
                return points


class Scorer(ABC):
    """Records which milestones and penalties have happened; the rubric turns them into a score.

    The rubric, not the scorer, checks which other milestones a milestone needs.
    """

    def __init__(self, world: World, task: Task) -> None:
        self.world = world
        self.final = False
        self._reached = {milestone.name: False for milestone in task.milestones}
        self._given = {penalty.name: set[str]() for penalty in task.penalties}
        self._held: Counter[str] = Counter()

    @abstractmethod
    def check(self) -> bool:
        """Check the world after a control step; return whether the task's final condition holds now."""

    def update(self) -> None:
        """Check once per control step, after the physics."""
        self.final = self.check()

    @property
    def milestones(self) -> tuple[str, ...]:
        """Milestones reached so far, in the rubric's order."""
        return tuple(name for name, reached in self._reached.items() if reached)

    @property
    def penalties(self) -> dict[str, int]:
        """How many times each penalty was given."""
        return {name: len(whom) for name, whom in self._given.items() if whom}

    def reach(self, milestone: str, condition: bool) -> None:
        """Mark a milestone as reached if its condition holds."""
        self._reached[milestone] |= bool(condition)

    def keep(self, milestone: str, condition: bool) -> None:
        """Withdraw a milestone if its condition no longer holds."""
        self._reached[milestone] &= bool(condition)

    def has(self, milestone: str) -> bool:
        """Whether a milestone is currently reached."""
        return self._reached[milestone]

    def penalize(self, penalty: str, condition: bool, whom: str = "") -> None:
        """Give a penalty if its condition holds, once per object `whom`."""
        if condition:
            self._given[penalty].add(whom)

    def pardon(self, penalty: str, whom: str = "") -> None:
        """Withdraw a penalty, where only the outcome counts."""
        self._given[penalty].discard(whom)

    def steady(self, what: str, condition: bool, steps: int = CALM) -> bool:
        """Whether a condition has held for some control steps in a row."""
        self._held[what] = self._held[what] + 1 if condition else 0
        return self._held[what] >= steps


class TwinTask(ABC):
    """A task in the cell; one object per environment, bound to its world."""

    name: ClassVar[str]
    max_steps: ClassVar[int]  # control steps for a policy, about twice the expert's
    readings: ClassVar[tuple[str, ...]] = ()  # how the scorer reads the rubric where its text is open; for the page

    def __init__(self, world: World) -> None:
        self.world = world
        self.record = catalog_task(self.name)

    @staticmethod
    @abstractmethod
    def add_objects(spec: mujoco.MjSpec) -> None:
        """Add the task's objects to the empty cell."""

    @abstractmethod
    def place(self, spread: Spread) -> None:
        """Lay out the objects for one episode, and reset the state of `after_step`."""

    @abstractmethod
    def scorer(self) -> Scorer:
        """A new scorer, created after the objects have settled."""

    @abstractmethod
    def scripts(self, drivers: Drivers) -> Scripts:
        """The expert: one generator for each arm that moves, one yield per control step."""

    def after_step(self) -> None:  # noqa: B027 -- most tasks need nothing here
        """Physics beyond the simulator's, such as cloth pinched by a hand; once per control step, before scoring."""
