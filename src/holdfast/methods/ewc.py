"""Elastic weight consolidation: weights important to earlier tasks are held near their values.

Kirkpatrick et al. 2017 (https://arxiv.org/abs/1612.00796), in the online form of Schwarz et al. 2018
(https://arxiv.org/abs/1805.06370): one Fisher diagonal for all tasks so far, one anchor, so the size does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.errors import require
from holdfast.methods.method import Method
from holdfast.methods.state import MethodState
from holdfast.methods.weights import copies, shapes, trained

if TYPE_CHECKING:
    import torch

    from holdfast.policies.adapter import Loss


@dataclass(frozen=True)
class Ewc(Method):
    """Elastic weight consolidation: one task after the other, with a penalty on changes of important weights.

    After each stage F becomes decay * F + F_new, and the weights w become the anchor w*. Later stages add
    strength / 2 * sum(F * (w - w*)^2) to the loss. F_new is the mean square of the loss's gradient, sample by sample
    over the stage's own data, at the weights that are saved.
    """

    # Weight of the penalty. The loss is a mean over many numbers, so its gradients are small and their squares smaller:
    # useful values are in the thousands.
    strength: float = 10_000.0
    # Factor on the importance for earlier tasks after each stage.
    decay: float = 0.9
    # Samples per stage on which importance is measured.
    samples: int = 256

    def __post_init__(self) -> None:
        require(0 <= self.strength < math.inf, "method.strength", self.strength, "at least 0 and finite")
        require(0 <= self.decay <= 1, "method.decay", self.decay, "between 0 and 1")
        require(self.samples >= 1, "method.samples", self.samples, "at least 1")

    def extra_loss(
        self, batch: dict[str, torch.Tensor], loss: Loss, policy: torch.nn.Module, kept: MethodState | None
    ) -> torch.Tensor | None:
        """The penalty; the first stage has none."""
        if kept is None:
            return None
        import torch

        fisher, anchor = kept.part("fisher"), kept.part("anchor")
        terms = [(fisher[name] * (w - anchor[name]).square()).sum() for name, w in trained(policy).items()]
        return self.strength / 2 * torch.stack(terms).sum()

    def keep(
        self, policy: torch.nn.Module, losses: Callable[[int], Iterator[Loss]], kept: MethodState | None
    ) -> MethodState:
        """The Fisher diagonal of all tasks so far, and the weights."""
        import torch

        weights = trained(policy)
        fisher = {name: torch.zeros_like(w, requires_grad=False) for name, w in weights.items()}
        for loss in losses(self.samples):
            gradients = torch.autograd.grad(loss.total, list(weights.values()), allow_unused=True)
            for total, gradient in zip(fisher.values(), gradients, strict=True):
                if gradient is not None:  # an unused weight
                    total.addcmul_(gradient, gradient, value=1 / self.samples)
        if kept is not None:
            for name, before in kept.part("fisher").items():
                fisher[name] += self.decay * before
        return MethodState({f"fisher/{name}": f for name, f in fisher.items()} | copies(policy, "anchor"))

    def kept_shapes(self, policy: torch.nn.Module) -> dict[str, tuple[int, ...]]:
        """Two tensors for every weight that is trained."""
        return shapes(policy, "fisher", "anchor")
