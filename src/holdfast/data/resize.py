"""Resizes images to what the policy reads, by the policy's own rule.

Padding is left out: black bars that fill a square would cost a quarter of the disk, would be shifted and brightened by
augmentation, and are added by the policy anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class Resize:
    """The size into which a policy fits its images, keeping their aspect ratio.

    With `antialias` (nano) sides are rounded to the nearest pixel; without (LeRobot's VLAs) they are rounded down.
    """

    height: int
    width: int
    antialias: bool

    def fit(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of an image after fitting."""
        ratio = max(height / self.height, width / self.width)
        # The small addition compensates for rounding in the division: 224 must not become 223.
        sides = ((side / ratio + (0.5 if self.antialias else 1e-6)) for side in (height, width))
        fitted = tuple(max(1, int(side)) for side in sides)
        return min(fitted[0], self.height), min(fitted[1], self.width)

    def shrunk(self, height: int, width: int) -> tuple[int, int]:
        """The same, but never larger than the image: upscaling is left to the policy."""
        fitted = self.fit(height, width)
        return fitted if fitted[0] < height or fitted[1] < width else (height, width)


def scale(images: torch.Tensor, size: tuple[int, int], antialias: bool) -> torch.Tensor:
    """Resize images (n, 3, height, width) bilinearly.

    uint8 is computed in integers, which is eight times as fast as floats and at most one level off.
    """
    if tuple(images.shape[-2:]) == size:
        return images
    return F.interpolate(images, size, mode="bilinear", antialias=antialias)
