"""The twin for Gymnasium: importing this module registers one id for each task, such as `holdfast/StackBowls-v0`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from holdfast.catalog import cameras
from holdfast.catalog import task as catalog_task
from holdfast.embodiments import EMBODIMENTS
from holdfast.twin import require_mujoco
from holdfast.twin.tasks import TASKS

CAMERAS = tuple(camera.name for camera in cameras())
_FULL = 100.0
_SLACK = 0.2  # rad or m: joint limits are soft, so a pushed arm can be measured slightly beyond them
_PICTURE = (240, 320)


def gym_id(task: str) -> str:
    """The Gymnasium id of a task: `stack_bowls` is `holdfast/StackBowls-v0`."""
    return f"holdfast/{task.title().replace('_', '')}-v0"


class TwinEnv(gymnasium.Env[dict[str, Any], np.ndarray]):
    """A task of the twin for Gymnasium; the reward is the change of the rubric's score, so a full score sums to 1.

    The seed of `reset` is that of the layout: `reset(seed=5)` is the episode that `holdfast twin score --seeds 5` runs.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 -- as the base has it

    def __init__(
        self,
        task: str,
        level: str = "standard",
        height: int = 96,
        width: int = 96,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Compile the cell of a task.

        Args:
            task: Name of a task of the twin.
            level: Spread of the objects: nominal, easy, standard or wide.
            height: Of the cameras' images.
            width: Of the cameras' images.
            max_steps: Control steps after which the episode is truncated; None: the task's own limit.
            render_mode: `rgb_array` or None.
        """
        require_mujoco()
        from holdfast.twin.env import CellEnv  # MuJoCo is imported when the first environment is made

        self._cell = CellEnv(task)
        self._cell.reset(0, level)  # raises at once if the level is unknown
        self.task = task
        self.task_description = catalog_task(task).instruction
        self.render_mode = render_mode
        self._level, self._size = level, (height, width)
        self._max_episode_steps = max_steps or self._cell.task.max_steps
        lower, upper = (limit.astype(np.float32) for limit in EMBODIMENTS["piper_x_pair"].state_range())
        image = spaces.Box(0, 255, (height, width, 3), np.uint8)
        self._limits = lower, upper
        self.action_space = spaces.Box(lower, upper, dtype=np.float32)
        self.observation_space = spaces.Dict(
            {
                "agent_pos": spaces.Box(lower - _SLACK, upper + _SLACK, dtype=np.float32),
                "pixels": spaces.Dict(dict.fromkeys(CAMERAS, image)),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode with the layout of `seed`, or of a random one."""
        super().reset(seed=seed)
        layout = int(self.np_random.integers(2**31)) if seed is None else seed
        self._cell.reset(layout, self._level)
        self._score = 0.0
        return self._observe(), self._info()

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """One control step of 1/30 s towards 14 absolute targets."""
        self._cell.step(np.clip(action, *self._limits))
        before, self._score = self._score, self._cell.score()
        terminated = self._score >= _FULL
        truncated = not terminated and self._cell.steps >= self._max_episode_steps
        return self._observe(), (self._score - before) / _FULL, terminated, truncated, self._info()

    def render(self) -> np.ndarray | None:
        """What the front camera sees."""
        if self.render_mode is None:
            return None
        return self._cell.world.render(["front"], *_PICTURE)["front"]

    def close(self) -> None:
        """Free the renderers."""
        self._cell.close()

    def _observe(self) -> dict[str, Any]:
        seen = self._cell.observe(self._size, CAMERAS)
        return {"agent_pos": seen.state.astype(np.float32), "pixels": seen.images}

    def _info(self) -> dict[str, Any]:
        reached = self._cell.reached()
        return {
            "is_success": self._score >= _FULL,
            "score": self._score,
            "milestones": list(reached.milestones),
            "penalties": dict(reached.penalties),
            "final": reached.final,
            "seed": self._cell.seed,
        }


def register() -> None:
    """Register every task of the twin with Gymnasium."""
    for task in TASKS:
        if gym_id(task) not in gymnasium.registry:
            gymnasium.register(gym_id(task), entry_point="holdfast.twin.gym:TwinEnv", kwargs={"task": task})


register()
