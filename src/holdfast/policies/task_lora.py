"""What a policy knows of the tasks that have a LoRA of their own, and which of them an instruction means."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.data.cache.thumbnails import SIDE

ROWS = "observation.task_lora"  # of a batch: the number of each row's task [B], int64


@dataclass(frozen=True)
class TaskLora:
    """One task with a LoRA: its instruction, the rank of its matrices, and what its episodes look like at first.

    `images` has a thumbnail for every camera: the mean of the first frames' of all its episodes.
    """

    instruction: str
    rank: int
    images: dict[str, list[float]]


def words(instruction: str) -> list[str]:
    """The words of an instruction; case and punctuation do not matter."""
    return re.findall(r"\w+", instruction.lower())


def check(loras: Sequence[TaskLora]) -> None:
    """Refuse values that no run has written, tasks that nothing could tell apart, and LoRAs of different ranks."""
    known: set[tuple[str, ...]] = set()
    for lora in loras:
        _check_values(lora)
        key = tuple(words(lora.instruction))
        if key in known:
            raise HoldfastError(
                f"Two tasks with LoRAs have the same instruction, {lora.instruction[:80]!r}. It decides which LoRA is "
                "used, so every task needs words of its own."
            )
        known.add(key)
    ranks = sorted({lora.rank for lora in loras})
    if len(ranks) > 1:
        raise HoldfastError(f"All LoRAs of a policy need one rank, got {', '.join(map(str, ranks))}.")


def _check_values(lora: TaskLora) -> None:
    if not words(lora.instruction):
        raise HoldfastError(f"A task with a LoRA needs words in its instruction, got {lora.instruction[:80]!r}.")
    if lora.rank < 1:
        raise HoldfastError(f"The rank of a LoRA must be at least 1, got {lora.rank}.")
    for camera, pixels in lora.images.items():
        if len(pixels) != SIDE * SIDE or not all(map(math.isfinite, pixels)):
            raise HoldfastError(f"The thumbnail of camera {camera[:80]!r} must hold {SIDE * SIDE} finite numbers.")


def by_words(instruction: str, loras: Sequence[TaskLora]) -> int | None:
    """The task with the same words in the same order, else the one that shares the most; None if none shares any.

    Words that both have are compared with words that either has. Of equals the first is taken.
    """
    asked = words(instruction)
    known = [words(lora.instruction) for lora in loras]
    if asked in known:
        return known.index(asked)
    shares = [len({*asked} & {*own}) / len({*asked} | {*own}) for own in known]
    best = int(np.argmax(shares))
    return best if shares[best] else None


def by_images(thumbnails: Mapping[str, np.ndarray], loras: Sequence[TaskLora]) -> int:
    """The task whose thumbnails are nearest, over the cameras that are given."""

    def distance(lora: TaskLora) -> float:
        seen = [np.square(pixels - lora.images[key]).mean() for key, pixels in thumbnails.items() if key in lora.images]
        return float(np.mean(seen)) if seen else math.inf

    return int(np.argmin([distance(lora) for lora in loras]))
