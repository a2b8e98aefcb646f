"""LoRAs beside the matrices of a network: one per task, of which every row of a batch takes its own task's.

A LoRA adds up @ down to a frozen matrix (Hu et al. 2021, https://arxiv.org/abs/2106.09685). Rows of a task compute the
same bits whatever other tasks there are: each row is multiplied by its own two matrices.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.core.errors import HoldfastError
from holdfast.policies.task_lora import ROWS, TaskLora, check


class Route:
    """Which task's LoRA each row of the batch takes. None: all rows take the newest, the one that learns."""

    rows: Tensor | None = None


class LoraLinear(nn.Linear):
    """A linear layer with LoRAs. Its own matrix keeps its name."""

    def __init__(self, linear: nn.Linear, route: Route) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.down, self.up = nn.ParameterList(), nn.ParameterList()
        self.route = route

    def add(self, rank: int, generator: torch.Generator | None) -> None:
        """Add a LoRA: one that changes nothing yet, or all zeros, to be loaded, without a generator."""
        down = torch.zeros(rank, self.in_features)
        if generator is not None:
            nn.init.kaiming_uniform_(down, a=math.sqrt(5), generator=generator)
        self.down.append(nn.Parameter(down.to(self.weight.device)))
        self.up.append(nn.Parameter(torch.zeros(self.out_features, rank, device=self.weight.device)))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to x [n, ..., in]; n is a multiple of the batch's rows, a row's own one after another."""
        y, rows = super().forward(x), self.route.rows
        if rows is None:
            return y + F.linear(F.linear(x, self.down[-1]), self.up[-1])
        each = rows.repeat_interleave(len(x) // len(rows))
        down, up = (torch.stack(list(every))[each] for every in (self.down, self.up))
        added = x.reshape(len(x), -1, self.in_features) @ down.mT @ up.mT
        return y + added.view_as(y)


def add_loras(
    network: nn.Module, targets: str, rank: int, route: Route, generator: torch.Generator | None = None
) -> None:
    """Give a network one LoRA more, beside every linear layer whose name matches `targets` in full."""
    for name, module in list(network.named_modules()):
        if isinstance(module, nn.Linear) and re.fullmatch(targets, name):
            if not isinstance(module, LoraLinear):
                module = LoraLinear(module, route)
                parent, _, own = name.rpartition(".")
                setattr(network.get_submodule(parent), own, module)
            module.add(rank, generator)


def learn_task(policy: Any, network: Any, targets: str, lora: TaskLora, seed: int) -> None:
    """Freeze a policy and give it a LoRA for one more task, which alone learns."""
    loras = [*policy.config.task_loras, lora]
    check(loras)
    policy.requires_grad_(False)
    add_loras(network, targets, lora.rank, network.route, torch.Generator().manual_seed(seed))
    policy.config.task_loras = loras


def routed_rows(policy: Any, batch: Mapping[str, Tensor]) -> Tensor | None:
    """Which LoRA each row of a batch takes; None if the policy has none, or trains its newest."""
    if policy.training or not policy.config.task_loras:
        return None
    if ROWS not in batch:
        raise HoldfastError(f"The policy has a LoRA per task, and the batch lacks {ROWS!r}, which its pipeline adds.")
    return batch[ROWS]
