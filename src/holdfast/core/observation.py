"""What a robot sees, and what a policy is asked about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdfast.core.records import Task


@dataclass(frozen=True)
class Observation:
    """One moment: the measured state in the embodiment's order, and images (height, width, 3) by camera."""

    state: np.ndarray
    images: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What a policy is asked: the task, one observation, and which question of which attempt it is.

    `seed` is that of the attempt's randomness, `number` counts the attempt's questions from 0; both decide the noise of
    the answer.
    """

    task: Task
    state: np.ndarray
    images: dict[str, np.ndarray] = field(default_factory=dict)
    seed: int = 0
    number: int = 0
