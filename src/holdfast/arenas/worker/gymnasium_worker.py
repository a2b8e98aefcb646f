"""Any Gymnasium environment as an arena with one task; the arena's options say what its observations mean."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame without a screen

import gymnasium
import numpy as np
from holdfast_worker import Simulator, resized  # type: ignore[import-not-found]


class GymnasiumTask(Simulator):
    """One environment. A seed is what `reset` is given, a level does not exist."""

    def __init__(
        self,
        id: str,
        instruction: str,
        task: str = "",
        state: Sequence[str] = (),
        action: Sequence[str] = (),
        state_key: str = "",
        cameras: Mapping[str, str] | None = None,
        success: str = "",
        clip: bool = True,
        make: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the environment.

        Args:
            id: As for `gymnasium.make`; `module:id` imports a module first, which registers it.
            instruction: What the policy is told.
            task: Name of the task; by default the id without its namespace and version.
            state: Names of the state's numbers; by default they are counted.
            action: Names of the action's numbers; by default they are counted.
            state_key: Where the state is in an observation, like `agent_pos`; empty if it is the observation.
            cameras: Where each camera's image is in an observation, like `pixels.top`; empty for what `render` draws.
            success: Key of `info` that says whether the task is done; empty if termination means success.
            clip: Cut actions to the limits of the action space; not where it declares limits that it does not mean.
            make: Further arguments of `gymnasium.make`.
        """
        self._env = gymnasium.make(id, **{"render_mode": "rgb_array", **(make or {})})
        if not isinstance(self._env.action_space, gymnasium.spaces.Box):
            raise TypeError(f"Actions of {id} are {self._env.action_space}; policies command numbers, a Box.")
        self._state_key, self._success_key, self._clip = state_key, success, clip
        self._keys = dict(cameras or {"top": ""})
        first, _ = self._env.reset(seed=0)
        name = task or id.rpartition("/")[2].rpartition(":")[2].partition("-v")[0].lower()
        self.tasks, self.cameras = {name: instruction}, tuple(self._keys)
        self.state = tuple(state) or _counted("state", np.size(_part(first, state_key)))
        self.action = tuple(action) or _counted("action", int(np.prod(self._env.action_space.shape or ())))
        self.rate = round(self._env.metadata.get("render_fps", 30))
        limit = self._env.spec.max_episode_steps if self._env.spec else None
        self.max_steps = limit or 300

    def begin(self, task: str, seed: int, level: str) -> None:
        """Reset by the seed."""
        self._env.action_space.seed(seed % 2**32)
        self._observation, _ = self._env.reset(seed=seed % 2**32)
        self._done, self._ended = False, False

    def step(self, action: np.ndarray) -> None:
        """Actions beyond the environment's limits are cut, unless told otherwise; where it takes integers, rounded."""
        space: Any = self._env.action_space
        action = action.reshape(space.shape)
        if np.issubdtype(space.dtype, np.integer):
            action = np.rint(action)
        if self._clip:
            action = np.clip(action, space.low, space.high)
        self._observation, _, terminated, truncated, info = self._env.step(action.astype(space.dtype))
        self._ended = bool(terminated or truncated)
        self._done = bool(info.get(self._success_key, False)) if self._success_key else bool(terminated)

    def measure(self) -> np.ndarray:
        """The state's part of the observation."""
        return np.ravel(_part(self._observation, self._state_key))

    def success(self) -> bool:
        """As the environment says."""
        return self._done

    def over(self) -> bool:
        """Terminated or truncated."""
        return self._ended

    def draw(self, camera: str, height: int, width: int) -> np.ndarray:
        """An image of the observation, or what `render` draws, in the size that is asked for."""
        key = self._keys[camera]
        image: Any = _part(self._observation, key) if key else self._env.render()
        return resized(np.asarray(image), height, width)

    def picture(self) -> np.ndarray:
        """What `render` draws."""
        image = np.asarray(self._env.render())
        return image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]


def _counted(word: str, number: int) -> tuple[str, ...]:
    return tuple(f"{word}_{i}" for i in range(number))


def _part(observation: Any, key: str) -> Any:
    for word in key.split(".") if key else ():
        observation = observation[word]
    return observation
