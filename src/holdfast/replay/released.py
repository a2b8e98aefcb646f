"""Replay buffers as the paper's released code writes them: task1_buffer.json, task2_buffer.json, ..."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.outside import read_json


def read_episodes(path: Path, starts: Sequence[int], ends: Sequence[int]) -> tuple[int, ...]:
    """Read which episodes a buffer keeps and check them against the dataset's frames."""
    content = read_json(path)
    try:
        mode, frames = content.get("mode", "transition"), int(content["original_dataset_size"])
        steps = np.sort(np.array(content["buffer_indices"], dtype=np.int64))
        episodes = tuple(int(name) for name in content.get("episode_indices") or ())
        total = int(content.get("original_num_episodes", len(starts)))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise HoldfastError(
            f"{path} is not a replay buffer of the released code ({type(error).__name__}: {error})."
        ) from None
    if mode != "episode":
        raise HoldfastError(
            f"{path} keeps single frames (mode {mode!r}); Holdfast keeps whole episodes. "
            "Build it again with REPLAY_MODE=episode."
        )
    if (total, frames) != (len(starts), int(ends[-1])):
        raise HoldfastError(
            f"{path} was built from {total} episodes with {frames} frames; the dataset has {len(starts)} with "
            f"{ends[-1]}. Name the dataset it was built from in the stream."
        )
    wrong = [e for e, count in Counter(episodes).items() if not 0 <= e < total or count > 1]
    if wrong or not episodes:
        raise HoldfastError(f"{path} must list episodes 0 to {total - 1}, each at most once, got {list(episodes)}.")
    expected = np.concatenate([np.arange(starts[e], ends[e]) for e in sorted(episodes)])
    if not np.array_equal(steps, expected):
        raise HoldfastError(f"{path} keeps other frames than its episodes {list(episodes)} have in the dataset.")
    return episodes
