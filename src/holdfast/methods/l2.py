"""L2: all weights are held near those of the stage before, each as strongly as the others.

The plain form of EWC, the baseline of Kirkpatrick et al. 2017 (https://arxiv.org/abs/1612.00796).
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
class L2(Method):
    """L2: one task after the other, with the same penalty on changes of all weights.

    Adds strength / 2 * sum((w - w*)^2) to the loss, where w* are the weights at the end of the stage before.
    """

    # Weight of the penalty. It sums over all weights, often millions, so useful values are far below 1.
    strength: float = 0.01

    def __post_init__(self) -> None:
        require(0 <= self.strength < math.inf, "method.strength", self.strength, "at least 0 and finite")

    def extra_loss(
        self, batch: dict[str, torch.Tensor], loss: Loss, policy: torch.nn.Module, kept: MethodState | None
    ) -> torch.Tensor | None:
        """The penalty; the first stage has none."""
        if kept is None:
            return None
        import torch

        anchor = kept.part("anchor")
        return (
            self.strength / 2 * torch.stack([(w - anchor[n]).square().sum() for n, w in trained(policy).items()]).sum()
        )

    def keep(
        self, policy: torch.nn.Module, losses: Callable[[int], Iterator[Loss]], kept: MethodState | None
    ) -> MethodState:
        """The weights."""
        return MethodState(copies(policy, "anchor"))

    def kept_shapes(self, policy: torch.nn.Module) -> dict[str, tuple[int, ...]]:
        """One tensor for every weight that is trained."""
        return shapes(policy, "anchor")
