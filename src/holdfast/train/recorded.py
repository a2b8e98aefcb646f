"""Loss and gradient of a small policy as one recorded graph of kernels, on a GPU.

A step of nano launches 1,300 kernels, which takes 50 ms from Python; they compute for 12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from holdfast.data.batches import Batch
from holdfast.policies.adapter import Loss
from holdfast.policies.parts import Part
from holdfast.policies.recorded import Recorded

type Learn = Callable[[Batch, torch.Tensor | None, torch.Tensor, Part], Loss]


class RecordedLoss:
    """Does what `learn` does, for whole batches of one shape."""

    def __init__(self, learn: Learn, weights: Sequence[torch.nn.Parameter]) -> None:
        self._learn, self._weights = learn, weights
        self._recorded: Recorded[tuple[Loss, list[torch.Tensor | None]]] | None = None

    def __call__(self, batch: Batch, active: torch.Tensor | None, share: torch.Tensor, part: Part) -> Loss:
        """Set the gradient, and return the loss; both in memory that the next call writes over."""
        inputs = {**batch, "active": active, "share": share}
        inputs = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        if self._recorded is None:
            self._recorded = Recorded(partial(self._learn_once, tuple(inputs), part))
        loss, gradients = self._recorded(*inputs.values())
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.grad = gradient
        return loss

    def _learn_once(
        self, names: tuple[str, ...], part: Part, *inputs: torch.Tensor
    ) -> tuple[Loss, list[torch.Tensor | None]]:
        for weight in self._weights:
            weight.grad = None  # so that the gradient is written, not added to what was there
        batch = dict(zip(names, inputs, strict=True))
        active, share = batch.pop("active", None), batch.pop("share")
        loss = self._learn(batch, active, share, part)
        return loss, [weight.grad for weight in self._weights]
