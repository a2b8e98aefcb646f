"""Small grey images, by which episodes are compared."""

from __future__ import annotations

from itertools import batched

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d

from holdfast.data.cache.cache import Cache

SIDE = 8  # pixels
AT_ONCE = 64  # images in memory


def thumbnails(cache: Cache, frames: np.ndarray) -> np.ndarray:
    """Grey images of `SIDE` x `SIDE` pixels, values from 0 to 1: one row per frame, its cameras one after the other."""
    rows = []
    for part in batched(frames.tolist(), AT_ONCE):
        small = []
        for camera, size in cache.spec.cameras.items():
            pixels = torch.empty((len(part), 3, *size), dtype=torch.uint8)
            cache.images(camera, torch.tensor(part), pixels)
            small.append(thumbnail(pixels))
        rows.append(torch.cat(small, 1).numpy())
    return np.concatenate(rows)


def thumbnail(images: torch.Tensor) -> torch.Tensor:
    """The same of images [n, 3, height, width], bytes or floats from 0 to 1."""
    grey = adaptive_avg_pool2d(images.float().mean(1), SIDE).flatten(1).cpu()
    return grey if images.is_floating_point() else grey / 255
