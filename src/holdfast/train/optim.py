"""AdamW, its learning-rate curve, and the moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from holdfast.train.config import OptimConfig
from holdfast.train.distributed.shards import local


def build_optimizer(policy: Any, config: OptimConfig) -> torch.optim.AdamW:
    """A fresh AdamW over the policy's own parameter groups."""
    preset = policy.config.get_optimizer_preset().lr
    lr = config.lr or preset
    groups = _groups(policy.get_optim_params())
    for group in groups:
        # A group with its own rate (a vision backbone, say) keeps its proportion when the peak is set by hand.
        group["peak"] = group["lr"] * (lr / preset) if "lr" in group else lr
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=config.eps, weight_decay=config.weight_decay, fused=True)


def _groups(parameters: Any) -> list[dict[str, Any]]:
    listed: Iterable[Any] = parameters.values() if isinstance(parameters, dict) else parameters
    listed = list(listed)
    if listed and isinstance(listed[0], dict):
        return [{**g, "params": [p for p in g["params"] if p.requires_grad]} for g in listed]
    return [{"params": [p for p in listed if p.requires_grad]}]


def warmup_steps(config: OptimConfig, steps: int) -> int:
    """Warmup steps of a stage: as configured, but at most a tenth of it."""
    return min(config.warmup, steps // 10)


def set_learning_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, step: int, steps: int) -> float:
    """Set the rate for `step` (from 0): linear warmup, then cosine to the stage's own last step."""
    warmup = warmup_steps(config, steps)
    if step < warmup:
        factor = (step + 1) / warmup
    else:
        progress = (step - warmup) / max(1, steps - 1 - warmup)
        factor = config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
    return float(optimizer.param_groups[0]["lr"])


class Average:
    """Exponential moving average of a model's parameters; buffers are taken as they are."""

    def __init__(self, parameters: dict[str, torch.Tensor], decay: float, warmup: bool = True) -> None:
        self._live = list(parameters.values())
        self.decay, self.warmup = decay, warmup
        self.values = {name: p.detach().clone() for name, p in parameters.items()}
        self._slow = list(self.values.values())

    def pace(self, step: int) -> float:
        """The fraction by which it moves; with warmup larger at first, so that a stage's start is averaged out."""
        return 1 - (min(self.decay, (1 + step) / (10 + step)) if self.warmup else self.decay)

    @property
    def by_weight(self) -> dict[torch.Tensor, torch.Tensor]:
        """The average of each live weight."""
        return dict(zip(self._live, self._slow, strict=True))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move towards the live weights."""
        torch._foreach_lerp_(_local(self._slow), _local(self._live), self.pace(step))

    @torch.no_grad()
    def write_to_model(self) -> None:
        """Put the average in place of the live weights."""
        torch._foreach_copy_(_local(self._live), _local(self._slow))


def _local(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """What this rank holds of sharded tensors."""
    return [local(tensor) for tensor in tensors]
