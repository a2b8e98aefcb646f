"""Dark experience replay (DER++): on replayed samples, the policy also follows the policy of the stage before.

Buzzega et al. 2020 (https://arxiv.org/abs/2004.07211). There the network's outputs are stored with each sample. The
output of a flow depends on noise, time and augmentation, which are drawn anew in every step. Storing outputs would mean
storing those as well, and training on the same few points again and again. So a teacher computes them instead.
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
class Derpp(Taught):
    """Dark experience replay (DER++): er, and on replayed samples the stage before teaches its velocities.

    Adds weight * mean(r * (v - v*)^2) to the loss: r is 1 for replayed samples and 0 for others, v is the policy's
    velocity, v* that of the policy at the end of the stage before, both at the same noise and time.
    """

    replays = True

    def extra_loss(
        self, batch: dict[str, torch.Tensor], loss: Loss, policy: torch.nn.Module, kept: MethodState | None
    ) -> torch.Tensor | None:
        """The distance to the teacher on replayed rows; the first stage has none."""
        return self.distance(loss, kept, batch["task_index"] > 0)
