"""Random numbers of a batch that do not depend on how the batch is split.

A slice draws the numbers of the whole batch and takes its own rows. So samples get the same noise on one rank or four,
in one micro-batch or many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class BatchSlice:
    """Rows `first` to `first + rows` of a batch that has `whole` rows."""

    first: int
    rows: int
    whole: int


def draw(part: BatchSlice | None, rows: int, random: Callable[[int], Tensor]) -> Tensor:
    """Draw random numbers for the rows of a slice; without one the rows are the whole batch.

    Args:
        part: Where the rows are in their batch.
        rows: How many to draw; a multiple of the slice's rows if samples take several draws.
        random: Draws the given number of rows.
    """
    if part is None:
        return random(rows)
    times = rows // part.rows
    return random(part.whole * times)[part.first * times :][:rows]
