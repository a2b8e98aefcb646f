"""The environment: one task in the cell, reset by seed and level, stepped at 30 Hz, scored as it goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast import rubric
from holdfast.core.errors import unknown
from holdfast.core.observation import Observation
from holdfast.core.records import Reached
from holdfast.twin import cell
from holdfast.twin.task import LEVELS, Spread
from holdfast.twin.tasks import task_class
from holdfast.twin.world import World

_SHOWN, _PICTURE = ("head", "front"), (240, 320)
_SETTLE = 10  # control steps before the episode: objects are placed a little above the table


class CellEnv:
    """Episodes of one task: compiled once, then `reset` and `step` any number of times; fully deterministic by seed."""

    def __init__(self, task: str, shadows: bool = False) -> None:
        """Compile the cell with the objects of a task.

        Args:
            task: Name of a task of the catalog.
            shadows: Draw shadows and smooth edges; for pictures, since rendering is about ten times slower.
        """
        kind = task_class(task)
        spec = cell.build(shadows)
        kind.add_objects(spec)
        self.world = World(spec)
        self.task = kind(self.world)
        self.reset(0, "nominal")

    def reset(self, seed: int, level: str = "standard") -> None:
        """Start an episode: layout from the seed, arms at home, nothing scored."""
        if level not in LEVELS:
            raise unknown("level", level, LEVELS)
        self.seed, self.level, self.steps = seed, level, 0
        self.world.reset()
        self.task.place(Spread(np.random.default_rng(seed), level))
        self.world.settle(_SETTLE)
        self.scorer = self.task.scorer()

    def step(self, action: np.ndarray) -> None:
        """One control step towards 14 absolute targets, in the embodiment's order."""
        self.world.step(action)
        self.task.after_step()
        self.scorer.update()
        self.steps += 1

    def observe(self, size: tuple[int, int] | None = None, cameras: Sequence[str] = cell.CAMERAS) -> Observation:
        """The measured state and, where a size (height, width) is given, what the cameras see."""
        return Observation(self.world.state(), self.world.render(cameras, *size) if size else {})

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.steps >= self.task.max_steps

    def reached(self) -> Reached:
        """Milestones and penalties so far."""
        return Reached(self.scorer.milestones, self.scorer.penalties, self.scorer.final)

    def score(self) -> float:
        """The score so far by the catalog's rubric, 0 to 100."""
        return rubric.score_reached(self.task.record, self.reached())

    def picture(self) -> np.ndarray:
        """The cell from above and from the front, side by side."""
        return np.hstack(list(self.world.render(_SHOWN, *_PICTURE).values()))

    def close(self) -> None:
        """Free the renderers."""
        self.world.close()
