"""The velocity of a flow-matching policy, where its loss is measured: at drawn noise and times.

A policy that offers `draw_noise` and `velocity_errors` can be compared with a teacher at the same noise and time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call


class FlowNoise(NamedTuple):
    """Everything that the loss of a batch draws; a row of the batch may have several rows here."""

    noise: Tensor  # [n, chunk, dimensions]
    time: Tensor  # [n]
    state: Tensor | None = None  # noise on the proprioception, one row per row of the batch


def mean_square(errors: Tensor, rows: int) -> Tensor:
    """Squares of errors [n, chunk, dimensions], averaged over the draws of each of the batch's rows."""
    squares = errors.square()
    return squares if len(squares) == rows else squares.unflatten(0, (rows, -1)).mean(1)


@dataclass(frozen=True)
class Flow:
    """How far a policy's velocities of a batch were from the demonstrated ones, and the noise and times they are of."""

    errors: Tensor
    drawn: FlowNoise
    batch: dict[str, Any]
    policy: nn.Module
    autocast: bool

    def disagreement(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Squared distance to the velocities of the same policy with other weights [rows, chunk, dimensions].

        Both see the same observation, noise and time; only the policy itself gets a gradient.
        """
        device = self.errors.device.type
        dtype = torch.get_autocast_dtype(device)
        with torch.no_grad(), torch.autocast(device, dtype, enabled=self.autocast):
            held = {f"policy.{name}": weight for name, weight in weights.items()}
            errors = functional_call(_VelocityErrors(self.policy), held, (self.batch, self.drawn))
        return mean_square(self.errors - errors, len(self.batch["action_is_pad"]))


class _VelocityErrors(nn.Module):
    """A policy's errors as a module, because torch exchanges the weights of modules."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy: Any = policy

    def forward(self, batch: dict[str, Any], drawn: FlowNoise) -> Tensor:
        errors: Tensor = self.policy.velocity_errors(batch, drawn)
        return errors
