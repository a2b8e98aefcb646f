"""Which layers recompute their activations in the backward pass, so that a batch fits into the GPU's memory.

A layer that recomputes keeps only its input. That costs a third of its time, so no more layers do it than necessary:
Gemma's first, whose activations are the largest, then the vision tower's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.sizes import BYTES_PER_PARAMETER, SPARE, Sizes, layer_bytes

# The backward pass of one layer takes as much memory as the activations of this many layers: its own, recomputed, and
# their gradients. Measured on a GPU with adapters and every layer recomputed: 0.73 GiB per row of four cameras and 200
# tokens.
BACKWARD = 4


@dataclass(frozen=True)
class RecomputePlan:
    """How many layers, from the first on, recompute."""

    language: int
    vision: int


def run(layer: nn.Module, again: bool, *inputs: Any) -> Any:
    """Call a layer; with `again` its activations are recomputed instead of kept."""
    if again and torch.is_grad_enabled():
        return checkpoint(layer, *inputs, use_reentrant=False, preserve_rng_state=False)
    return layer(*inputs)


def plan(config: Pi05FastConfig, model: nn.Module, rows: int, cameras: int, words: int) -> RecomputePlan:
    """The fewest layers that have to recompute for a batch to fit.

    Args:
        config: Sizes, and the user's choice of `recompute`.
        model: Its parameters take memory too.
        rows: Samples of a (micro-)batch.
        cameras: Images of a sample.
        words: Tokens of the padded prompt.
    """
    device = next(model.parameters()).device
    if config.recompute == "always":
        return RecomputePlan(config.depth, config.vision_layers)
    if config.recompute == "never" or device.type != "cuda":
        return RecomputePlan(0, 0)
    total = torch.cuda.get_device_properties(device).total_memory
    limit = total * torch.cuda.get_per_process_memory_fraction(device)
    return choose(config, limit * (1 - SPARE) - held(model), rows, cameras, words)


def held(model: nn.Module) -> int:
    """Bytes that weights, gradients, moments and average take."""
    sizes = ((p.numel(), p.element_size(), p.requires_grad) for p in model.parameters())
    return sum(count * (BYTES_PER_PARAMETER if learns else size) for count, size, learns in sizes)


def choose(config: Pi05FastConfig, free: float, rows: int, cameras: int, words: int) -> RecomputePlan:
    """The plan for `free` bytes of activations."""
    layer = layer_bytes(Sizes.of(config), rows, cameras, words)
    working = BACKWARD * max(layer.language, layer.vision)
    missing = layer.language * config.depth + layer.vision * config.vision_layers + working - free
    again = _count(missing, layer.language - layer.language_input, config.depth)
    missing -= again * (layer.language - layer.language_input)
    return RecomputePlan(again, _count(missing, layer.vision - layer.vision_input, config.vision_layers))


def _count(missing: float, gain: float, most: int) -> int:
    return min(most, max(0, -int(-missing // gain)))
