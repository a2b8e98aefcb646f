"""The environment: one task in the cell, reset by seed and level, stepped at 30 Hz, scored as it goes."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from holdfast import rubric
from holdfast.core.errors import unknown
from holdfast.core.observation import Observation
from holdfast.core.records import Reached
from holdfast.twin import cell
from holdfast.twin.look import VISITOR
from holdfast.twin.portrait import FILM, TRIAL, DressedCopy, Portrait, Quality
from holdfast.twin.task import LEVELS, Spread, TwinTask
from holdfast.twin.tasks import task_class
from holdfast.twin.world import World

_PICTURE = (240, 320)
_SETTLE = 10  # control steps before the episode: objects are placed a little above the table


class CellEnv:
    """Episodes of one task: compiled once, then `reset` and `step` any number of times; fully deterministic by seed."""

    def __init__(self, task: str) -> None:
        """Compile the cell with the objects of a task of the catalog."""
        kind = task_class(task)
        self.world = World(_specify(kind))
        self.task = kind(self.world)
        self._copy: DressedCopy | None = None
        self._portraits: dict[tuple[tuple[int, int], Quality], Portrait] = {}
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
        """The cell from above and from the front, side by side, as policies see it: quick enough for real time."""
        return np.hstack(list(self.world.render(("head", "front"), *_PICTURE).values()))

    def portrait(self) -> np.ndarray:
        """The cell from above and as a visitor sees it, side by side, drawn for people."""
        return np.hstack(list(self.show(_PICTURE, ("head", VISITOR), TRIAL).values()))

    def show(self, size: tuple[int, int], cameras: Sequence[str], quality: Quality = FILM) -> dict[str, np.ndarray]:
        """What cameras see, drawn for people (`look.py`); `visitor` is one more camera, which policies do not have."""
        copy = self.dressed()
        if (size, quality) not in self._portraits:
            self._portraits[size, quality] = Portrait(copy, *size, quality)
        return dict(zip(cameras, self._portraits[size, quality].draw(copy.data, cameras), strict=True))

    def dressed(self) -> DressedCopy:
        """The copy of the cell that people see, in its pose of now."""
        if self._copy is None:
            self._copy = DressedCopy(_specify(type(self.task)))
        self._copy.follow(self.world.data)
        return self._copy

    def close(self) -> None:
        """Free the renderers."""
        self.world.close()
        for portrait in self._portraits.values():
            portrait.close()
        self._portraits.clear()


def _specify(kind: type[TwinTask]) -> mujoco.MjSpec:
    spec = cell.build()
    kind.add_objects(spec)
    return spec
