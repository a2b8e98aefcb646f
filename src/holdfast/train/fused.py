"""Clipping, AdamW and the moving average in one pass over memory, on a GPU.

As separate passes they read and write every weight's numbers three times, which for billions of weights takes a tenth
of the time of the step's matrix products. The arithmetic is that of torch's AdamW and of `Average`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 1024
LARGE = 100_000_000  # weights; fewer are updated faster by torch, whose kernels take many tensors at once


@triton.jit
def _update(  # type: ignore[no-untyped-def]
    weights, gradients, means, squares, averages, count, clip, lr, beta1, beta2, eps, decay, follow, size,
    averaged: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * width + tl.arange(0, width)
    real = place < size
    steps = tl.load(count)
    gradient = tl.load(gradients + place, real).to(tl.float32) * tl.load(clip)
    mean, square = tl.load(means + place, real), tl.load(squares + place, real)
    mean = mean + (1 - beta1) * (gradient - mean)
    square = beta2 * square + (1 - beta2) * gradient * gradient
    weight = tl.load(weights + place, real) * (1 - lr * decay)
    root = tl.sqrt(square) / tl.sqrt(1 - tl.exp(steps * tl.log(beta2))) + eps
    weight = weight - lr / (1 - tl.exp(steps * tl.log(beta1))) * mean / root
    tl.store(weights + place, weight, real)
    tl.store(means + place, mean, real)
    tl.store(squares + place, square, real)
    if averaged:
        average = tl.load(averages + place, real)
        tl.store(averages + place, average + follow * (weight - average), real)


@torch.no_grad()
def update(
    optimizer: torch.optim.AdamW,
    averages: dict[torch.Tensor, torch.Tensor],
    follow: float,
    clip: float,
) -> torch.Tensor:
    """Take AdamW's step with clipped gradients and update the average; returns the gradient's norm.

    Args:
        optimizer: Its state is read and written as in its own step.
        averages: The average of every weight that has one.
        follow: The fraction by which averages move towards the weights.
        clip: Largest global norm of the gradient.
    """
    learning = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in learning], foreach=True)
    coefficient = (clip / (norm + 1e-6)).clamp(max=1.0)
    states = [_state(optimizer, p) for p in learning]
    torch._foreach_add_([state["step"] for state in states], 1.0)
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if weight.grad is not None:
                _launch(group, weight, optimizer.state[weight], averages.get(weight), coefficient, follow)
    still = [(averages[p], p) for p in averages if p.grad is None]
    if still:  # without a gradient there is no step, but the average still follows
        torch._foreach_lerp_([slow for slow, _ in still], [live for _, live in still], follow)
    return norm


def _launch(
    group: dict[str, Any],
    weight: torch.Tensor,
    state: dict[str, torch.Tensor],
    average: torch.Tensor | None,
    coefficient: torch.Tensor,
    follow: float,
) -> None:
    beta1, beta2 = group["betas"]
    gradient = weight.grad
    assert gradient is not None
    _update[(triton.cdiv(weight.numel(), BLOCK),)](
        weight, _like(gradient, weight), state["exp_avg"], state["exp_avg_sq"],
        weight if average is None else average, state["step"], coefficient,
        group["lr"], beta1, beta2, group["eps"], group["weight_decay"], follow, weight.numel(),
        averaged=average is not None, width=BLOCK,
    )  # fmt: skip


def _like(gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The gradient in the weight's memory layout."""
    return gradient if gradient.stride() == weight.stride() else torch.empty_like(weight).copy_(gradient)


def _state(optimizer: torch.optim.AdamW, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """AdamW's state of a weight, initialized as AdamW does."""
    state: dict[str, torch.Tensor] = optimizer.state[weight]
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
        state["exp_avg"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        state["exp_avg_sq"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
    return state


def worthwhile(parameters: Sequence[torch.Tensor]) -> bool:
    """Whether there are many weights, all of them unsharded dense fp32 tensors on a GPU."""
    return sum(p.numel() for p in parameters) >= LARGE and all(
        type(p) is torch.nn.Parameter and p.is_cuda and p.dtype == torch.float32 and not p.is_sparse for p in parameters
    )
