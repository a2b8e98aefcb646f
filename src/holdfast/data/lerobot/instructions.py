"""Which episodes of a dataset follow which instruction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.folder import read_tables, read_words
from holdfast.data.lerobot.source import Source


def episodes_by_instruction(source: Source) -> dict[str, tuple[int, ...]]:
    """Episodes by their instruction, exactly as it is recorded; those in which it changes are left out."""
    words = read_words(source.root)
    column = read_tables(source.root, ["task_index"])["task_index"]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise HoldfastError(f"The tables of {source.dataset} must have a whole number as task_index in every row.")
    indices = column.to_numpy()
    if len(indices) != source.ends[-1] or not ((indices >= 0) & (indices < len(words))).all():
        raise HoldfastError(f"The tables of {source.dataset} have a task_index that meta/tasks.parquet does not have.")
    found: dict[str, list[int]] = {word: [] for word in words}
    for episode, (start, end) in enumerate(zip(source.starts, source.ends, strict=True)):
        own = np.unique(indices[start:end])
        if len(own) == 1:
            found[words[own[0]]].append(episode)
    return {word: tuple(episodes) for word, episodes in found.items()}
