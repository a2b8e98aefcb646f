"""Image augmentation per sample, on whatever device the batch is on.

All cameras of a sample are shifted alike, as if the scene had moved. Together with relative actions this makes a small
policy use where things are instead of memorizing where they usually are.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from holdfast.policies.batch_slice import BatchSlice, draw
from holdfast.policies.config import AugmentConfig
from holdfast.policies.device import send

WRIST = "wrist"  # in the name of a camera on a hand


def augment(
    images: dict[str, torch.Tensor], config: AugmentConfig, seed: int, batch_slice: BatchSlice | None = None
) -> dict[str, torch.Tensor]:
    """Turn uint8 images (n, [time,] 3, height, width) into augmented float images in [0, 1].

    The draws come from a CPU generator seeded for this step, so they do not depend on the device; with `batch_slice`,
    they do not depend on how a batch is split either.
    """
    generator = torch.Generator().manual_seed(seed)
    count = len(next(iter(images.values())))

    def between(columns: int) -> torch.Tensor:
        return draw(batch_slice, count, lambda rows: torch.rand(rows, columns, generator=generator)) * 2 - 1

    offset = between(2) * config.shift
    frame = between(3) if config.crop or config.rotation else None
    factors = (config.brightness, config.contrast, config.saturation)
    out = {}
    for key, pixels in images.items():
        colour = 1 + between(3) * torch.tensor(factors)
        moved = (_shift(pixels, send(offset, pixels.device)) if config.shift else pixels).float() / 255
        if frame is not None and WRIST not in key:
            moved = _frame(moved, send(frame, pixels.device), config)
        out[key] = _recolour(moved, send(colour, pixels.device)) if any(factors) else moved
    return out


def _frame(pixels: torch.Tensor, draws: torch.Tensor, config: AugmentConfig) -> torch.Tensor:
    """Crop and rotate each sample's images, repeating the border.

    `draws` [n, 3] in [-1, 1]: where the crop is, across and down, and its rotation.
    """
    height, width = pixels.shape[-2:]
    across, down = (draws[:, :2] * config.crop).unbind(1)
    angle = draws[:, 2] * math.radians(config.rotation)
    cos, sin = angle.cos() * (1 - config.crop), angle.sin() * (1 - config.crop)
    # Coordinates run from -1 to 1 along both sides, so rotating an image that is not square has to stretch them.
    matrix = torch.stack([cos, -sin * (height / width), across, sin * (width / height), cos, down], 1).view(-1, 2, 3)
    flat = pixels.flatten(1, -3)
    grid = F.affine_grid(matrix, [len(flat), 1, height, width], align_corners=False)
    return F.grid_sample(flat, grid, padding_mode="border", align_corners=False).reshape(pixels.shape)


def _shift(pixels: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Move each sample's images by its own whole number of pixels, repeating the border."""
    height, width = pixels.shape[-2:]
    samples = torch.arange(len(pixels), device=pixels.device)[:, None, None]
    rows = _moved(height, offset[:, 0])[:, :, None]
    columns = _moved(width, offset[:, 1])[:, None, :]
    # Advanced indexing puts the indexed axes first; bring channels (and time) back in front of them.
    flat = pixels.flatten(1, -3)
    return flat[samples, :, rows, columns].movedim(-1, 1).reshape(pixels.shape)


def _moved(size: int, offset: torch.Tensor) -> torch.Tensor:
    places = torch.arange(size, device=offset.device)
    return (places[None] + (offset * size).round().long()[:, None]).clamp(0, size - 1)


def _recolour(pixels: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    brightness, contrast, saturation = (f.view(-1, *[1] * (pixels.ndim - 1)) for f in factors.unbind(1))
    pixels = pixels * brightness
    mean = pixels.mean((-3, -2, -1), keepdim=True)
    pixels = mean + (pixels - mean) * contrast
    grey = pixels.mean(-3, keepdim=True)
    return (grey + (pixels - grey) * saturation).clamp(0, 1)
