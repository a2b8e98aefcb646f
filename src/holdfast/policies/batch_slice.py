"""Random numbers of a batch that do not depend on how the batch is split.

A slice draws the numbers of the whole batch and takes its own rows. So samples get the same noise on one rank or four,
in one micro-batch or many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

type TensorBatch = dict[str, Tensor]


@dataclass(frozen=True)
class BatchSlice:
    """Rows `first` to `first + rows` of a batch that has `whole` rows."""

    first: int
    rows: int
    whole: int


def draw(batch_slice: BatchSlice | None, rows: int, random: Callable[[int], Tensor]) -> Tensor:
    """Draw random numbers for the rows of a slice; without one the rows are the whole batch.

    Args:
        batch_slice: Where the rows are in their batch.
        rows: How many to draw; a multiple of the slice's rows if samples take several draws.
        random: Draws the given number of rows.
    """
    if batch_slice is None:
        return random(rows)
    times = rows // batch_slice.rows
    return random(batch_slice.whole * times)[batch_slice.first * times :][:rows]
