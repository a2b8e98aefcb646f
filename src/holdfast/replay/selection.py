"""Which episodes of a task are worth keeping: a ranking, best first.

The buffer always keeps a prefix of the ranking, so what is kept after a later stage is part of what was kept
before, whatever the selection. A new selection is one function and one line in the table.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

Selection = Callable[[str, Sequence[int], int], tuple[int, ...]]


def random(task: str, lengths: Sequence[int], seed: int) -> tuple[int, ...]:
    """Rank the episodes of `task` (given by their lengths) in an order that only the seed and the name decide."""
    order = np.random.default_rng([seed, zlib.crc32(task.encode())]).permutation(len(lengths))
    return tuple(int(i) for i in order)


SELECTIONS: dict[str, Selection] = {"random": random}
