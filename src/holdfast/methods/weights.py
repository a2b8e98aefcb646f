"""The weights that methods compare, hold or copy: all of a policy's that are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def trained(policy: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The weights that are trained, by name."""
    return {name: weight for name, weight in policy.named_parameters() if weight.requires_grad}


def copies(policy: torch.nn.Module, part: str) -> dict[str, torch.Tensor]:
    """Copies of them as one part of a method's state."""
    return {f"{part}/{name}": weight.detach().clone() for name, weight in trained(policy).items()}


def shapes(policy: torch.nn.Module, *parts: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a state whose parts have a tensor for every weight."""
    return {f"{part}/{name}": tuple(weight.shape) for part in parts for name, weight in trained(policy).items()}
