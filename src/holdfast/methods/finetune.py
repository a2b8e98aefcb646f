"""Every task on its own."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.records import Stage, Stream
from holdfast.methods.method import Method


class Finetune(Method):
    """Every task on its own from the base weights: the single-task baseline that FWT compares with."""

    arrangement = "alone"

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """One stage per task, independent of the others."""
        return tuple(Stage(i + 1, name, (i,), steps[i], start="base") for i, name in enumerate(stream.names))
