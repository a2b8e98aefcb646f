"""Any environment of LeRobot as an arena, by the type that `lerobot-eval --env.type` takes.

A policy gets what it gets in `lerobot-eval`: observations go through LeRobot's own functions and the environment's
processors, actions are passed on as they are, and the environment's `is_success` decides. Needs lerobot 0.6.1 and the
simulator.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame without a screen

import numpy as np
import torch
from holdfast_worker import Simulator, resized  # type: ignore[import-not-found]
from lerobot.envs.configs import EnvConfig
from lerobot.envs.factory import make_env, make_env_config
from lerobot.envs.utils import preprocess_observation
from lerobot.utils.import_utils import register_third_party_plugins

torch.set_num_threads(1)  # many such processes run side by side


class LeRobotTasks(Simulator):
    """The environments that LeRobot's factory makes of one config, each a task. Levels do not exist."""

    def __init__(
        self,
        type: str,
        config: Mapping[str, Any] | None = None,
        instruction: str = "",
        state: Sequence[str] = (),
        action: Sequence[str] = (),
    ) -> None:
        """Make the environments.

        Args:
            type: As for `--env.type`, like `aloha`; also one that an installed plugin registers.
            config: Options of its `EnvConfig`, as for `--env.NAME`.
            instruction: What the policy is told where the environment has no `task_description`.
            state: Names of the state's numbers; by default they are counted.
            action: Names of the action's numbers; by default they are counted.
        """
        if type not in EnvConfig.get_known_choices():
            register_third_party_plugins()
        made = make_env_config(type, **(config or {}))
        self._processor, _ = made.get_env_processors()
        # The environments themselves: the vectors around them would begin the next episode in an episode's last step.
        found = [vector.envs[0] for vectors in make_env(made).values() for vector in vectors.values()]
        names = [str(getattr(env.unwrapped, "task", "") or type) for env in found]
        self._envs = dict(zip(names, found, strict=True))
        if len(self._envs) < len(found):
            raise ValueError(f"Several environments of {type!r} are called {max(names, key=names.count)!r}.")
        self.tasks = {name: _described(env, instruction) for name, env in self._envs.items()}
        self.rate = made.fps
        self.begin(names[0], 0, "")
        self.cameras = tuple(self._images)
        self.state = tuple(state) or tuple(f"state_{i}" for i in range(len(self._state)))
        self.action = tuple(action) or tuple(f"action_{i}" for i in range(found[0].action_space.shape[0]))

    def begin(self, task: str, seed: int, level: str) -> None:
        """Reset by the seed."""
        self._env = self._envs[task]
        if hasattr(self._env.unwrapped, "init_state_id"):
            self._env.unwrapped.init_state_id = seed  # LIBERO would take the next initial state at every reset
        observation, _ = self._env.reset(seed=seed % 2**32)
        self._see(observation)
        self._done = self._ended = False

    def step(self, action: np.ndarray) -> None:
        """The action as it is; LeRobot cuts nothing either."""
        observation, _, terminated, truncated, info = self._env.step(action.astype(self._env.action_space.dtype))
        self._see(observation)
        self._ended, self._done = bool(terminated or truncated), bool(info["is_success"])

    def _see(self, observation: Mapping[str, Any]) -> None:
        seen = self._processor(preprocess_observation(_batch_of_one(observation)))
        if "observation.state" not in seen:
            raise ValueError("The observation has no state. Choose another obs_type in [options.config].")
        self._state = seen["observation.state"][0].numpy().astype(np.float64)
        images = {key: value[0] for key, value in seen.items() if key.startswith("observation.image")}
        self._images = {key.rpartition(".")[2]: image for key, image in images.items()}

    def measure(self) -> np.ndarray:
        """What a policy gets as `observation.state`."""
        return self._state

    def success(self) -> bool:
        """As the environment says."""
        return self._done

    def over(self) -> bool:
        """Terminated or truncated."""
        return self._ended

    def draw(self, camera: str, height: int, width: int) -> np.ndarray:
        """The observation's image, in the size that is asked for."""
        image = self._images[camera].permute(1, 2, 0).numpy()
        return resized(np.rint(255 * image).astype(np.uint8), height, width)

    def picture(self) -> np.ndarray:
        """What `render` draws."""
        image = np.asarray(self._env.render())
        return image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]


def _described(env: Any, instruction: str) -> dict[str, Any]:
    text = getattr(env.unwrapped, "task_description", "") or instruction
    if not text:
        raise ValueError("The environment has no task_description. Give an `instruction` in [options].")
    return {"instruction": text, "max_steps": env.get_wrapper_attr("_max_episode_steps")}


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, Mapping):
        return {key: _batch_of_one(value) for key, value in observation.items()}
    return np.asarray(observation)[None]
