"""The twin for LeRobot's own commands: `lerobot-eval --env.type=holdfast_twin --env.task=stack_bowls ...`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from lerobot.utils.constants import ACTION, OBS_IMAGES, OBS_STATE

from holdfast.core.errors import HoldfastError, unknown
from holdfast.embodiments import EMBODIMENTS
from holdfast.twin.gym import CAMERAS, TwinEnv
from holdfast.twin.tasks import TASKS

_FPS = 30
_DIMENSIONS = len(EMBODIMENTS["piper_x_pair"].dimensions)


@EnvConfig.register_subclass("holdfast_twin")
@dataclass
class HoldfastTwinConfig(EnvConfig):
    """One or several tasks of the twin, separated by commas; LeRobot numbers them from 0 in its results."""

    task: str | None = "stack_bowls"
    fps: int = _FPS
    # Spread of the objects: nominal, easy, standard or wide.
    level: str = "standard"
    # Size of the images; use the size the policy was trained with.
    height: int = 96
    width: int = 96
    # Control steps after which an episode is truncated; 0: the task's own limit.
    episode_length: int = 0
    features: dict[str, PolicyFeature] = field(default_factory=dict)
    features_map: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.fps != _FPS:
            raise HoldfastError(f"The twin is controlled {_FPS} times a second, got --env.fps={self.fps}.")
        for name in self.tasks:
            if name not in TASKS:
                raise unknown("task of the twin", name, TASKS)
        image = PolicyFeature(FeatureType.VISUAL, (self.height, self.width, 3))
        self.features = {
            ACTION: PolicyFeature(FeatureType.ACTION, (_DIMENSIONS,)),
            "agent_pos": PolicyFeature(FeatureType.STATE, (_DIMENSIONS,)),
            **{f"pixels/{camera}": image for camera in CAMERAS},
        }
        self.features_map = {
            ACTION: ACTION,
            "agent_pos": OBS_STATE,
            **{f"pixels/{camera}": f"{OBS_IMAGES}.{camera}" for camera in CAMERAS},
        }

    @property
    def tasks(self) -> list[str]:
        """The tasks' names."""
        return [name.strip() for name in (self.task or "").split(",")]

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        """Arguments of every environment."""
        return {
            "level": self.level,
            "height": self.height,
            "width": self.width,
            "max_steps": self.episode_length or None,
            "render_mode": "rgb_array",
        }

    def create_envs(
        self, n_envs: int, use_async_envs: bool = False
    ) -> dict[str, dict[int, gymnasium.vector.VectorEnv]]:
        """One vector of environments per task, in separate processes with `use_async_envs`."""
        return {"holdfast_twin": {i: self._vector(name, n_envs, use_async_envs) for i, name in enumerate(self.tasks)}}

    def _vector(self, task: str, n_envs: int, use_async_envs: bool) -> gymnasium.vector.VectorEnv:
        makers = [partial(TwinEnv, task, **self.gym_kwargs)] * n_envs
        # LeRobot reads the outcome from the step that ends an episode, so the next one begins in that same step.
        mode = gymnasium.vector.AutoresetMode.SAME_STEP
        if use_async_envs and n_envs > 1:
            return gymnasium.vector.AsyncVectorEnv(makers, context="forkserver", autoreset_mode=mode)
        return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=mode)
