"""Randomness of a batch that does not depend on how the batch is cut.

A part draws what the whole batch would draw and takes its own rows. So one rank or four, one micro-batch or many, put
the same noise on the same samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class BatchSlice:
    """So many rows of a batch, from a first one on, and how many the whole batch has."""

    first: int
    rows: int
    whole: int


def draw(part: BatchSlice | None, rows: int, random: Callable[[int], Tensor]) -> Tensor:
    """Draw for the rows of a part; `None`: there is nothing but these rows.

    Args:
        part: Where the rows stand in their batch.
        rows: Wanted; a multiple of the part's where a sample is drawn for several times.
        random: Draws so many rows.
    """
    if part is None:
        return random(rows)
    times = rows // part.rows
    return random(part.whole * times)[part.first * times :][:rows]
