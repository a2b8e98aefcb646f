"""What methods with a teacher share: a frozen copy of the policy at the end of the stage before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.errors import require
from holdfast.methods.method import Method
from holdfast.methods.state import MethodState
from holdfast.methods.weights import copies, shapes

if TYPE_CHECKING:
    import torch

    from holdfast.policies.adapter import Loss


@dataclass(frozen=True)
class Taught(Method):
    """Base of methods that compare the policy's velocities with a teacher's, at the same noise and time."""

    needs = "velocities"

    # Weight of the squared distance between the policy's and the teacher's velocities, beside the loss.
    weight: float = 1.0

    def __post_init__(self) -> None:
        require(0 <= self.weight < math.inf, "method.weight", self.weight, "at least 0 and finite")

    def distance(self, loss: Loss, kept: MethodState | None, rows: torch.Tensor | None = None) -> torch.Tensor | None:
        """The weighted mean squared distance to the teacher, over all unmasked elements of the batch.

        Args:
            loss: The policy's loss of the batch.
            kept: The teacher; None in the first stage, which has none.
            rows: Which rows count [n]; the others count as 0, so that the mean is the same however a batch is split.
        """
        if kept is None or not self.weight:
            return None
        assert loss.flow is not None
        assert loss.mask is not None
        mask = loss.mask if rows is None else loss.mask * rows[:, None, None]
        distances = loss.flow.disagreement(kept.part("teacher"))
        return self.weight * (distances * mask).sum() / loss.mask.sum().clamp_min(1)

    def keep(
        self, policy: torch.nn.Module, losses: Callable[[int], Iterator[Loss]], kept: MethodState | None
    ) -> MethodState:
        """The weights, as the teacher of the next stage."""
        return MethodState(copies(policy, "teacher"))

    def kept_shapes(self, policy: torch.nn.Module) -> dict[str, tuple[int, ...]]:
        """One tensor for every weight that is trained; the others are the policy's own."""
        return shapes(policy, "teacher")
