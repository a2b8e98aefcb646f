"""An episode of an arena, scored at every step by the caller's rubric."""

from __future__ import annotations

import numpy as np

from holdfast import rubric
from holdfast.arenas.arena import Arena
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Reached, Task, Trial

FULL = 100.0


class ScoredEpisode:
    """One opened task of an arena, with its rubric; runs one episode after the other.

    Evaluation, videos, recordings and simulated robots all step an arena through this class.
    """

    def __init__(self, arena: Arena, task: Task, shadows: bool = False) -> None:
        """Open the task.

        Args:
            arena: The arena of the task.
            task: Its name is the arena's; its instruction and rubric are the caller's, usually those of a run.
            shadows: Ask for better pictures.
        """
        arena.task(task.name)
        self.arena, self.task = arena, task
        self.environment = arena.open(task.name, shadows)

    def begin(self, seed: int, level: str) -> None:
        """Start an episode."""
        self.seed, self.level, self.steps = seed, self.arena.level(level), 0
        self.times: dict[str, float] = {}
        self.environment.reset(seed, self.level)
        self.reached: Reached = self.environment.reached()

    def step(self, action: np.ndarray) -> None:
        """Take one control step and update what was reached."""
        names = self.arena.action
        if np.shape(action) != (len(names),) or not np.isfinite(action).all():
            raise HoldfastError(f"An action of the arena {self.arena.name!r} is {len(names)} numbers, got {action!r}.")
        self.environment.step(action)
        self.steps += 1
        self.reached = self.environment.reached()
        for milestone in self.reached.milestones:
            self.times.setdefault(milestone, self.seconds)

    @property
    def seconds(self) -> float:
        """Simulated time since the episode began."""
        return self.steps / self.arena.rate

    @property
    def score(self) -> float:
        """The score so far, 0 to 100."""
        return rubric.score_reached(self.task, self.reached)

    @property
    def done(self) -> bool:
        """Whether the score is full, so that a policy has nothing left to do."""
        return self.score >= FULL

    @property
    def over(self) -> bool:
        """Whether the arena ends the episode: the time is up, or it cannot go on."""
        return self.environment.over

    def trial(self, stage: int = 0) -> Trial:
        """The episode so far as a trial of stage `stage`."""
        return Trial(
            task=self.task.name,
            stage=stage,
            milestones=self.reached.milestones,
            penalties=self.reached.penalties,
            final=self.reached.final,
            source=self.arena.name,
            seed=self.seed,
            level=self.level,
            times=dict(self.times),
            seconds=self.seconds,
            score=self.score,
        )

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()
