"""A robot's observation, and the question that a policy answers with actions."""

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
    """A request for actions: the task, one observation, and the question's place in its attempt.

    `seed` is the attempt's random seed, `number` counts the attempt's questions from 0; both determine the noise of the
    answer.
    """

    task: Task
    state: np.ndarray
    images: dict[str, np.ndarray] = field(default_factory=dict)
    seed: int = 0
    number: int = 0
