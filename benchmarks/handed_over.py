"""A stricter judge of ALOHA's `transfer_cube`: the left hand alone has to hold the cube.

gym-aloha counts success as soon as the left gripper touches the cube in the air, when the right one may still hold it.
This is a worker, to be named in an arena's file. With `holdfast arena setup aloha`:

    python = "~/.local/share/holdfast/arenas/aloha/env/bin/python"
    worker = "benchmarks/handed_over.py"
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from aloha_worker import Aloha  # type: ignore[import-not-found]

STEPS = 10  # 0.2 s


class HandedOver(Aloha):
    """The last milestone: for 0.2 s the left hand touched the cube, and neither the right hand nor the table did."""

    def begin(self, task: str, seed: int, level: str) -> None:
        """Start an episode."""
        super().begin(task, seed, level)
        self._alone, self._handed_over = 0, False

    def step(self, action: np.ndarray) -> None:
        """Count the steps in which the left hand alone has the cube."""
        super().step(action)
        touching = " ".join(self._touching_the_cube())
        alone = "vx300s_left" in touching and "vx300s_right" not in touching and "table" not in touching
        self._alone = self._alone + 1 if alone else 0
        self._handed_over |= self._alone >= STEPS

    def success(self) -> bool:
        """Once done is done."""
        return self._handed_over

    def milestones(self) -> Sequence[str]:
        """gym-aloha's, but for the last one."""
        names = list(self.tasks[self._task]["milestones"])
        return names if self._handed_over else names[: min(self._best, len(names) - 1)]

    def _touching_the_cube(self) -> list[str]:
        data, name = self._physics.data, self._physics.model.id2name
        pairs = [(name(int(pair.geom1), "geom"), name(int(pair.geom2), "geom")) for pair in data.contact[: data.ncon]]
        return [part for pair in pairs if "red_box" in pair for part in pair if part != "red_box"]
