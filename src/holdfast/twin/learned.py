"""A trained policy in the cell: it looks, predicts a chunk, carries out the first steps of it, and looks again."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast.data.source import IMAGES, STATE
from holdfast.embodiment import EMBODIMENTS
from holdfast.errors import HoldfastError
from holdfast.norm.strategies import Normalization
from holdfast.policies import adapter as adapters
from holdfast.policies import transforms
from holdfast.twin.env import CellEnv

_ROBOT = EMBODIMENTS["piper_x_pair"]
_FULL = 100.0


class Learned:
    """A saved policy as a policy of the twin. Arms the task does not use hold the pose they were found in."""

    def __init__(self, env: CellEnv, folder: Path, device: str = "cpu", seed: int = 0) -> None:
        """Load a policy for the task of an environment just reset.

        Args:
            env: Where it will act.
            folder: A stage's checkpoint of a run, or any folder of a LeRobot policy.
            device: Where it computes.
            seed: Of its own randomness.
        """
        self._env, self._device = env, device
        self._adapter, self._pre, self._post = _load(folder, env.task.name, device)
        config = self._adapter.config
        self._cameras = [key.removeprefix(IMAGES) for key in config.image_features]
        _, height, width = next(iter(config.image_features.values())).shape
        self._size = height, width
        self._idle = ~_ROBOT.active(env.task.record.arms)
        self._start = env.observe().state
        self._queue: deque[np.ndarray] = deque()
        self._adapter.policy.reset()
        torch.manual_seed(seed)

    def act(self) -> np.ndarray | None:
        """The next 14 targets, or None once the task is done."""
        if self._env.score() >= _FULL:
            return None
        if not self._queue:
            self._queue.extend(self._predict())
        return np.where(self._idle, self._start, self._queue.popleft())

    @torch.no_grad()
    def _predict(self) -> np.ndarray:
        """The next actions, as many as the policy carries out before it looks again."""
        config, policy = self._adapter.config, self._adapter.policy
        batch = self._pre(self._observe())
        if config.n_obs_steps > 1:  # such a policy keeps its own queues of what it saw and of what it will do
            return np.asarray(self._post(policy.select_action(batch)).cpu())
        chunk = self._post(policy.predict_action_chunk(batch))
        return np.asarray(chunk[0, : config.n_action_steps].cpu())

    def _observe(self) -> dict[str, Any]:
        seen = self._env.observe(self._size, self._cameras)
        images = {
            IMAGES + camera: torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float() / 255
            for camera, image in seen.images.items()
        }
        state = torch.from_numpy(seen.state).float()[None]
        return {STATE: state, "task": [self._env.task.record.instruction], **images}


def _load(folder: Path, task: str, device: str) -> tuple[adapters.Adapter, Any, Any]:
    """The policy with its pre- and post-processing: in a checkpoint's space for this task, or as it was saved."""
    statistics = folder / "normalization.json"
    policy = folder / "policy" if statistics.exists() else folder
    if not (policy / "config.json").exists():
        raise HoldfastError(
            f"{folder} holds no policy. Give a stage's checkpoint, like runs/NAME/stages/01-{task}/checkpoint, or the "
            "folder of a LeRobot policy with its config.json."
        )
    adapter = adapters.load(policy, _ROBOT.names, device)
    if not statistics.exists():
        return adapter, *transforms.load(adapter.config, policy)
    normalization = Normalization.from_json(json.loads(statistics.read_text()))
    return adapter, *transforms.build(adapter.config, normalization.execute(task))
