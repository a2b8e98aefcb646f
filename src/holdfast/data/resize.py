"""Images made as small as the policy would make them, by the policy's own rule.

Only the picture itself is kept: the black bars that make it fit a policy's square cost a quarter of the disk, would be
shifted and brightened by augmentation, and are added by every such policy anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class Resize:
    """The size a policy fits its images into with their aspect kept.

    With `antialias` (nano) sides are rounded to the nearest pixel; without (LeRobot's VLAs) they are cut off.
    """

    height: int
    width: int
    antialias: bool

    def fit(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of an image of the given size once it fits."""
        ratio = max(height / self.height, width / self.width)
        # The small addition makes up for rounding in the division: 224 must not become 223.
        sides = ((side / ratio + (0.5 if self.antialias else 1e-6)) for side in (height, width))
        fitted = tuple(max(1, int(side)) for side in sides)
        return min(fitted[0], self.height), min(fitted[1], self.width)

    def shrunk(self, height: int, width: int) -> tuple[int, int]:
        """The same, but never larger than the image: enlarging is left to the policy."""
        fitted = self.fit(height, width)
        return fitted if fitted[0] < height or fitted[1] < width else (height, width)


def scale(images: torch.Tensor, size: tuple[int, int], antialias: bool) -> torch.Tensor:
    """Bilinear images (n, 3, height, width) of another size.

    Bytes are computed in whole numbers, which is eight times as fast as floats and at most one level off.
    """
    if tuple(images.shape[-2:]) == size:
        return images
    return F.interpolate(images, size, mode="bilinear", antialias=antialias)
