"""An arena as a robot: a control step of its simulator for every command."""

from __future__ import annotations

import numpy as np

from holdfast.arenas.arena import Arena
from holdfast.arenas.scored_episode import ScoredEpisode
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Observation
from holdfast.core.records import Task, Trial
from holdfast.embodiments.embodiment import Embodiment
from holdfast.embodiments.piper_x import PIPER_X_PAIR
from holdfast.robots.limits import Workspace


def body_of(arena: Arena) -> Embodiment:
    """The embodiment of an arena; an error if it has none."""
    if arena.embodiment is None:
        raise HoldfastError(
            f"The arena {arena.name!r} names no embodiment, so there are no limits for a robot to keep. Use "
            "`holdfast evaluate` there."
        )
    return arena.embodiment


class Simulated:
    """A task of an arena; its layout is drawn from the attempt's seed, and it scores itself."""

    resets_itself = True
    needs_config = False

    def __init__(self, arena: Arena, task: Task, cameras: dict[str, tuple[int, int]], level: str | None = None) -> None:
        """Open the task.

        Args:
            arena: Where; it needs an embodiment, whose limits every command has to pass.
            task: What, with the rubric by which it is scored.
            cameras: Those the policy looks through, with height and width.
            level: How far objects stray; the arena's default if not given.
        """
        self.embodiment, self.rate, self.level = body_of(arena), arena.rate, arena.level(level)
        self.workspace = Workspace() if self.embodiment == PIPER_X_PAIR else None
        self._cameras = cameras
        self._episode = ScoredEpisode(arena, task)
        self.begin(0)

    def begin(self, seed: int) -> None:
        """Lay the objects out, arms at home."""
        self._episode.begin(seed, self.level)
        self._last = self._episode.observe().state

    def observe(self) -> Observation:
        """The measured pose, and the images drawn in the policy's size."""
        cameras, episode = self._cameras, self._episode
        sizes = set(cameras.values())
        drawn = {size: episode.observe(size, [n for n in cameras if cameras[n] == size]).images for size in sizes}
        return Observation(episode.observe().state, {name: drawn[size][name] for name, size in cameras.items()})

    def send(self, pose: np.ndarray) -> None:
        """One control step towards a pose."""
        self._last = pose
        self._episode.step(pose)

    def stop(self) -> None:
        """One more step that stays at the last command: nothing moves but what was moving."""
        if not self.over:
            self._episode.step(self.embodiment.still(self._last))

    def picture(self) -> np.ndarray:
        """What the arena shows to people."""
        return self._episode.environment.picture()

    @property
    def over(self) -> bool:
        """Whether the score is full or the task's time is up."""
        return self._episode.done or self._episode.over

    def trial(self, stage: int) -> Trial:
        """The attempt so far, scored."""
        return self._episode.trial(stage)

    def close(self) -> None:
        """Free the renderers."""
        self._episode.close()
