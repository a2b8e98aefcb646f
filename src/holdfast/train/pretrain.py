"""Trains a base policy, from which streams start, on many short episodes in memory. (The paper starts from pi0.5.)

Unlike a stage of a stream it has no buffer, no dataset and no resume: it takes minutes on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from holdfast.data.lerobot.source import ACTION, IMAGES, STATE, is_image
from holdfast.data.loader import Batch
from holdfast.norm.strategies import Space
from holdfast.policies import transforms
from holdfast.policies.adapter import Adapter
from holdfast.policies.augment import augment
from holdfast.policies.config import AugmentConfig
from holdfast.train.config import OptimConfig
from holdfast.train.optim import set_learning_rate
from holdfast.train.state import TrainingState


@dataclass(frozen=True)
class Experience:
    """Episodes laid end to end. Every `every`-th step of an episode has images."""

    cameras: tuple[str, ...]
    every: int
    instructions: tuple[str, ...]  # of each episode
    states: torch.Tensor  # (steps, dimensions)
    actions: torch.Tensor
    frames: torch.Tensor  # (frames, cameras, height, width, 3) uint8
    frame_step: torch.Tensor  # the step that each frame shows
    frame_end: torch.Tensor  # and the end of its episode
    frame_episode: np.ndarray

    def to(self, device: str) -> Experience:
        """The same with its tensors on a device."""
        return replace(
            self,
            states=self.states.to(device),
            actions=self.actions.to(device),
            frames=self.frames.to(device),
            frame_step=self.frame_step.to(device),
            frame_end=self.frame_end.to(device),
        )

    def batch(self, rng: np.random.Generator, count: int, chunk: int) -> Batch:
        """Frames drawn uniformly, with the chunk of actions that follows each."""
        chosen = rng.integers(len(self.frames), size=count)
        index = torch.from_numpy(chosen).to(self.frames.device)
        start, end = self.frame_step[index], self.frame_end[index]
        steps = start[:, None] + torch.arange(chunk, device=start.device)
        images = self.frames[index].permute(1, 0, 4, 2, 3)
        return {
            STATE: self.states[start],
            ACTION: self.actions[torch.minimum(steps, end[:, None] - 1)],
            "action_is_pad": steps >= end[:, None],
            "task": [self.instructions[e] for e in self.frame_episode[chosen]],
            "task_index": torch.zeros(count, dtype=torch.long),
            **{IMAGES + camera: image for camera, image in zip(self.cameras, images, strict=True)},
        }


@dataclass(frozen=True)
class PretrainConfig:
    """How the base is trained."""

    steps: int
    batch_size: int
    # Sides the policy shrinks its images to, one drawn for each step: the base then serves all of them.
    sizes: Sequence[int]
    seed: int
    optim: OptimConfig
    augment: AugmentConfig


def pretrain(
    adapter: Adapter,
    space: Space,
    experience: Experience,
    config: PretrainConfig,
    device: str,
    report: Callable[[int, float], None],
) -> None:
    """Train a policy in place, ending with its averaged weights; `report` is called with the step and the mean loss."""
    preprocess = transforms.build_training(adapter.config, [space])
    state = TrainingState(adapter.policy.train(), config.optim)
    # For such a small network, launching kernels takes longer than running them.
    loss_of = torch.compile(adapter.loss, dynamic=False) if device == "cuda" else adapter.loss
    rng = np.random.default_rng(config.seed)
    torch.manual_seed(config.seed)
    full_size = adapter.config.image_size
    recent: list[torch.Tensor] = []
    reported = time.monotonic()
    while state.step < config.steps:
        batch = experience.batch(rng, config.batch_size, adapter.config.chunk_size)
        images = {key: batch[key] for key in batch if is_image(key)}
        batch.update(augment(images, config.augment, int(rng.integers(2**62))))
        adapter.config.image_size = int(rng.choice(config.sizes))
        ready = {key: value for key, value in preprocess(batch).items() if isinstance(value, torch.Tensor)}
        set_learning_rate(state.optimizer, config.optim, state.step, config.steps)
        state.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_of(ready, None).total
        loss.backward()
        state.advance(config.optim.clip)
        recent.append(loss.detach())
        if time.monotonic() - reported > 5 or state.step == config.steps:
            report(state.step, float(torch.stack(recent).mean()))
            recent, reported = [], time.monotonic()
    adapter.config.image_size = full_size
    if state.average:
        state.average.write_to_model()
