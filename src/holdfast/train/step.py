"""One optimizer step: augment, preprocess, loss, backward, clip, update, average."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from holdfast.data.lerobot.source import is_image
from holdfast.data.loader import Batch, prepare_on_copy_stream
from holdfast.policies.adapter import Adapter, Loss
from holdfast.policies.augment import augment
from holdfast.policies.batch_slice import BatchSlice
from holdfast.policies.device import send
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.parallel import ExtraLoss, Objective
from holdfast.train.distributed.ranks import ALONE, Ranks
from holdfast.train.optim import set_learning_rate
from holdfast.train.state import TrainingState


@dataclass(frozen=True)
class Combine:
    """How a method combines the gradients of new and of replayed rows; rows from task `learning` on are replayed."""

    gradients: Callable[[list[torch.Tensor], list[torch.Tensor]], list[torch.Tensor]]
    learning: int


class Stepper:
    """Takes the steps of one stage. All randomness comes from (seed, stage, step) and the row's place in the batch.

    So splitting a batch into micro-batches and over ranks changes only the order of sums. Policies without
    `loss_elements` are seeded by the number of the micro-batch instead, counted over all ranks.
    """

    def __init__(
        self,
        config: TrainConfig,
        adapter: Adapter,
        preprocess: Any,
        active: np.ndarray | None,
        stage: int,
        steps: int,
        device: str,
        ranks: Ranks = ALONE,
        extra: ExtraLoss | None = None,
        combine: Combine | None = None,
    ) -> None:
        self._config, self._combine = config, combine
        self._objective = Objective(adapter, config, device, ranks, extra, graphs=combine is None)
        self._knows_elements = adapter.knows_elements
        self._preprocess = preprocess
        self._active = None if active is None else torch.from_numpy(active).to(device)
        self._stage, self._steps, self._ranks = stage, steps, ranks
        self._device = torch.device(device)

    def __call__(self, state: TrainingState, batch: Batch) -> tuple[list[Loss], torch.Tensor]:
        """Take step `state.step` with this rank's part of a batch, not yet preprocessed.

        Returns:
            The micro-batches' losses, each weighted by its share of the batch, and the norm of the gradient.
        """
        optim = self._config.optim
        set_learning_rate(state.optimizer, optim, state.step, self._steps)
        losses = self._combined(state, batch, self._combine) if self._combine else self._learn(state, batch)
        return losses, state.advance(optim.clip)

    def _combined(self, state: TrainingState, batch: Batch, combine: Combine) -> list[Loss]:
        """Set the gradient that a method makes of two: that of the batch's new rows and that of its replayed ones."""
        replayed = send(batch["task_index"], self._device) >= combine.learning
        losses, gradients = [], []
        for rows in (~replayed, replayed):
            losses.append(self._learn(state, batch, rows))
            learning = [weight for weight in state.parameters.values() if weight.grad is not None]
            gradients.append([torch.clone(weight.grad) for weight in learning if weight.grad is not None])
        for weight, gradient in zip(learning, combine.gradients(*gradients), strict=True):
            weight.grad = gradient
        whole = self._ranks.sum(self._elements(batch, torch.ones_like(replayed)).sum()).clamp_min(1)
        return [_united(new, old, whole) for new, old in zip(*losses, strict=True)]

    def _learn(self, state: TrainingState, batch: Batch, rows: torch.Tensor | None = None) -> list[Loss]:
        """Set the gradient of a batch, or of the mean over some of its rows, and return its micro-batches' losses."""
        optim = self._config.optim
        parts = optim.micro_batches // self._ranks.count
        shares = self._shares(batch, parts, rows)
        chosen = [None] * parts if rows is None else rows.chunk(parts)
        state.optimizer.zero_grad(set_to_none=True)
        losses = []
        for place, micro in enumerate(split(batch, parts)):
            number, size = self._ranks.number * parts + place, len(micro["task"])
            batch_slice = BatchSlice(number * size, size, optim.micro_batches * size)
            seed = step_seed(self._config.seed, self._stage, state.step, 0, 0)
            ready = self.prepare(micro, seed, batch_slice)
            if not self._knows_elements:  # it ignores `batch_slice`: draw other noise for every micro-batch
                seed = step_seed(self._config.seed, self._stage, state.step, 0, number)
            last = place + 1 == parts
            active = self.active_rows(micro, chosen[place])
            losses.append(self._objective.learn(ready, active, shares[place], seed, batch_slice, last))
        return losses

    def _shares(self, batch: Batch, parts: int, rows: torch.Tensor | None) -> torch.Tensor:
        """Weight of each micro-batch in the batch: by its loss elements if the policy gives them, else equal."""
        own = self._elements(batch, rows).view(parts, -1).sum(1).float()
        return own / self._ranks.sum(own.sum()).clamp_min(1)

    def _elements(self, batch: Batch, rows: torch.Tensor | None = None) -> torch.Tensor:
        """How many elements every row has in the loss; 1 if the policy does not give them."""
        if not self._knows_elements:
            return torch.ones(len(batch["task"]), device=self._device)
        count = send((~batch["action_is_pad"]).sum(1), self._device)
        active = self.active_rows(batch, rows)
        return count if active is None else count * active.sum(1)

    def prepare(self, batch: Batch, seed: int, batch_slice: BatchSlice | None = None) -> Batch:
        """Move a batch, or part of one, to the device, augment its images, and run the policy's own preprocessing."""
        return prepare_on_copy_stream(self._device, self._prepare, batch, seed, batch_slice)

    def _prepare(self, batch: Batch, seed: int, batch_slice: BatchSlice | None) -> Batch:
        moved = {
            key: value.to(self._device, non_blocking=True) if isinstance(value, torch.Tensor) else value
            for key, value in batch.items()
        }
        images = {key: value for key, value in moved.items() if is_image(key)}
        moved.update(augment(images, self._config.augment, seed, batch_slice))
        ready: Batch = self._preprocess(moved)
        return ready

    def active_rows(self, batch: Batch, rows: torch.Tensor | None = None) -> torch.Tensor | None:
        """The dimensions that count in the loss of each row, none where it is not one of `rows`; None: all of them."""
        active = None if self._active is None else self._active[send(batch["task_index"], self._device)]
        if rows is None:
            return active
        counted = rows[:, None].expand(-1, batch["action"].shape[-1])
        return counted if active is None else active & counted


def _united(new: Loss, replayed: Loss, whole: torch.Tensor) -> Loss:
    """The loss of a micro-batch whose rows were learned apart, as part of a batch with so many elements."""
    assert new.elements is not None
    assert new.mask is not None
    assert replayed.mask is not None
    mask = new.mask + replayed.mask
    return Loss((new.elements * mask).sum() / whole, new.elements, mask)


def split(batch: Batch, parts: int) -> Iterator[Batch]:
    """Cut a batch into equal micro-batches."""
    size = len(batch["task"]) // parts
    for start in range(0, size * parts, size):
        yield {key: value[start : start + size] for key, value in batch.items()}


def step_seed(*key: int) -> int:
    """Combine several numbers into one seed for torch."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
