"""Learning without forgetting: the policy of the stage before is the teacher on the new task's observations.

Li and Hoiem 2016 (https://arxiv.org/abs/1606.09282), with velocities in place of class probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.methods.state import MethodState
from holdfast.methods.teacher import Taught

if TYPE_CHECKING:
    import torch

    from holdfast.policies.adapter import Loss


@dataclass(frozen=True)
class Lwf(Taught):
    """Learning without forgetting: the stage before teaches its velocities on the new task; no episodes are kept.

    Adds weight * mean((v - v*)^2) to the loss: v is the policy's velocity on samples of the new task, v* that of the
    policy at the end of the stage before, both at the same noise and time.
    """

    def extra_loss(
        self, batch: dict[str, torch.Tensor], loss: Loss, policy: torch.nn.Module, kept: MethodState | None
    ) -> torch.Tensor | None:
        """The distance to the teacher; the first stage has none."""
        return self.distance(loss, kept)
