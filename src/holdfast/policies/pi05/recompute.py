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

# What training holds per parameter, also after a resume: fp32 weight, gradient, two moments and the moving average.
BYTES_PER_PARAMETER = 20
# The backward pass of one layer takes as much memory as the activations of this many layers: its own, recomputed, and
# their gradients. Measured on a GPU with adapters and every layer recomputed: 0.73 GiB per row of four cameras and 200
# tokens.
BACKWARD = 4
# Share of the memory left for what is not counted here: kernels, fragmentation.
SPARE = 0.06


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
    (language, language_input), (vision, vision_input), working = costs(config, rows, cameras, words)
    missing = language * config.depth + vision * config.vision_layers + working - free
    again = _count(missing, language - language_input, config.depth)
    missing -= again * (language - language_input)
    return RecomputePlan(again, _count(missing, vision - vision_input, config.vision_layers))


def costs(config: Pi05FastConfig, rows: int, cameras: int, words: int) -> tuple[tuple[int, int], tuple[int, int], int]:
    """Bytes a layer keeps, in full and its input alone, of Gemma and the vision tower; and those of a backward pass."""
    images = rows * cameras * config.image_tokens
    tokens = images + rows * words
    language = layer_bytes(tokens, config.width, config.mlp_dim, config.heads * config.head_dim)
    vision = layer_bytes(images, config.vision_width, config.vision_mlp_dim, config.vision_width, gated=False)
    inputs = 2 * tokens * config.width, 2 * images * config.vision_width
    return (language, inputs[0]), (vision, inputs[1]), BACKWARD * max(language, vision)


def layer_bytes(tokens: int, width: int, inner: int, attended: int, gated: bool = True) -> int:
    """Bytes a layer keeps in bf16: inputs of its norms and matrices, queries, attention outputs, inner values."""
    return 2 * tokens * (4 * width + 2 * attended + (3 if gated else 2) * inner)


def _count(missing: float, gain: float, most: int) -> int:
    return min(most, max(0, -int(-missing // gain)))
