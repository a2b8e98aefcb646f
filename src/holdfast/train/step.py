"""One optimizer step: augment, preprocess, loss, backward, clip, update, average."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from holdfast.data.batches import Batch
from holdfast.data.source import IMAGES
from holdfast.policies.adapter import Adapter, Loss
from holdfast.policies.augment import augment
from holdfast.train.config import TrainConfig
from holdfast.train.optim import set_learning_rate
from holdfast.train.state import TrainingState


class Stepper:
    """Carries out the steps of one stage; everything random in a step comes from (seed, stage, step, rank)."""

    def __init__(
        self,
        config: TrainConfig,
        adapter: Adapter,
        preprocess: Any,
        active: np.ndarray | None,
        stage: int,
        steps: int,
        device: str,
        rank: int = 0,
    ) -> None:
        self._config = config
        self._adapter = adapter
        self._preprocess = preprocess
        self._active = None if active is None else torch.from_numpy(active).to(device)
        self._stage, self._steps, self._rank = stage, steps, rank
        self._device = device

    def __call__(self, state: TrainingState, batch: Batch) -> tuple[list[Loss], torch.Tensor]:
        """Take step `state.step` with a batch as it comes from the data; returns losses and the gradient's norm."""
        optim = self._config.optim
        set_learning_rate(state.optimizer, optim, state.step, self._steps)
        state.optimizer.zero_grad(set_to_none=True)
        losses = []
        for part, micro in enumerate(split(batch, optim.accumulate)):
            seed = step_seed(self._config.seed, self._stage, state.step, self._rank, part)
            ready = self.prepare(micro, seed)
            torch.manual_seed(seed)
            with self._autocast():
                loss = self._adapter.loss(ready, self._active_rows(micro))
            (loss.total / optim.accumulate).backward()
            losses.append(loss.detach())
        return losses, state.advance(optim.clip)

    def prepare(self, batch: Batch, seed: int) -> Batch:
        """Move a batch to the device, augment its images, and run the policy's own preprocessing."""
        moved = {
            key: value.to(self._device, non_blocking=True) if isinstance(value, torch.Tensor) else value
            for key, value in batch.items()
        }
        images = {key: value for key, value in moved.items() if key.startswith(IMAGES)}
        moved.update(augment(images, self._config.augment, seed))
        ready: Batch = self._preprocess(moved)
        return ready

    def _active_rows(self, batch: Batch) -> torch.Tensor | None:
        return None if self._active is None else self._active[batch["task_index"].to(self._device)]

    def _autocast(self) -> AbstractContextManager[Any]:
        precision = self._config.optim.precision
        if precision == "bf16" or (precision == "auto" and self._device.startswith("cuda")):
            return torch.autocast(self._device.split(":")[0], torch.bfloat16)
        return nullcontext()


def split(batch: Batch, parts: int) -> Iterator[Batch]:
    """Cut a batch into equal micro-batches."""
    size = len(batch["task"]) // parts
    for start in range(0, size * parts, size):
        yield {key: value[start : start + size] for key, value in batch.items()}


def step_seed(*key: int) -> int:
    """One seed for torch out of several numbers."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
