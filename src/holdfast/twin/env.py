"""The environment: one task in the cell, reset by seed and level, stepped at 30 Hz, scored as it goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast import rubric
from holdfast.core.errors import unknown
from holdfast.core.observation import Observation
from holdfast.core.records import Trial
from holdfast.twin import cell
from holdfast.twin.task import LEVELS, Spread
from holdfast.twin.tasks import task_class
from holdfast.twin.world import World

FULL = 100.0
_SETTLE = 10  # control steps before the episode: objects are laid down a little above the table


class CellEnv:
    """A task's episode: compile once, then `reset` and `step` as often as wanted; the same seed gives the same bits."""

    def __init__(self, task: str, shadows: bool = False) -> None:
        """Compile the cell with the objects of a task.

        Args:
            task: Name of a task of the catalog.
            shadows: Draw shadows and smooth edges: for pictures, as it costs about ten times the rendering time.
        """
        kind = task_class(task)
        spec = cell.build(shadows)
        kind.add_objects(spec)
        self.world = World(spec)
        self.task = kind(self.world)
        self.reset(0, "nominal")

    def reset(self, seed: int, level: str = "standard") -> None:
        """Begin an episode: layout drawn from the seed, arms at home, nothing scored."""
        if level not in LEVELS:
            raise unknown("level", level, LEVELS)
        self.seed, self.level, self.steps = seed, level, 0
        self.times: dict[str, float] = {}
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
        for milestone in self.scorer.milestones:
            self.times.setdefault(milestone, self.seconds)

    def observe(self, size: tuple[int, int] | None = None, cameras: Sequence[str] = cell.CAMERAS) -> Observation:
        """The measured state and, where a size (height, width) is given, what the cameras see."""
        return Observation(self.world.state(), self.world.render(cameras, *size) if size else {})

    @property
    def seconds(self) -> float:
        """Simulated time since the episode began."""
        return self.steps / cell.CONTROL_HZ

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.steps >= self.task.max_steps

    def trial(self, stage: int = 0) -> Trial:
        """The episode so far as a trial of stage `stage`."""
        seen = self.scorer
        return Trial(
            task=self.task.name,
            stage=stage,
            milestones=seen.milestones,
            penalties=seen.penalties,
            final=seen.final,
            source="twin",
            seed=self.seed,
            level=self.level,
            times=dict(self.times),
            seconds=self.seconds,
            score=rubric.score(self.task.record, seen.milestones, seen.penalties, seen.final),
        )

    def score(self) -> float:
        """The score of the episode so far, 0 to 100."""
        return rubric.score(self.task.record, self.scorer.milestones, self.scorer.penalties, self.scorer.final)

    @property
    def done(self) -> bool:
        """Whether the score is full, so that a policy has nothing left to do."""
        return self.score() >= FULL

    def close(self) -> None:
        """Free the renderers."""
        self.world.close()
