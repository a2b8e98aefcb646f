"""Averaged gradient episodic memory: a step that would hurt the kept episodes is projected until it does not.

Chaudhry et al. 2019 (https://arxiv.org/abs/1812.00420).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.methods.method import Method

if TYPE_CHECKING:
    import torch


class Agem(Method):
    """Averaged gradient episodic memory: kept episodes are not learned again, but the gradient must not hurt them.

    Every batch has f_r of its rows from the buffer. With g the gradient of the new rows and h that of the replayed
    ones, the step is taken with g if g.h >= 0, else with g - (g.h / h.h) h. A small step along it does not raise the
    loss of the replayed rows. AdamW scales it and adds momentum, as it does with any gradient.
    """

    replays = True
    mix = "row"
    needs = "elements"

    def combine(self, new: list[torch.Tensor], replayed: list[torch.Tensor]) -> list[torch.Tensor]:
        """The projection. It reads no value, so a GPU need not wait."""
        import torch

        product = torch.stack([(g * h).sum() for g, h in zip(new, replayed, strict=True)]).sum()
        square = torch.stack([h.square().sum() for h in replayed]).sum()
        share = product.clamp(max=0) / square.clamp_min(torch.finfo(square.dtype).tiny)
        return [g - share * h for g, h in zip(new, replayed, strict=True)]
