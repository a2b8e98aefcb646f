"""Every task on its own."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.records import Stage, Stream
from holdfast.methods.method import Method, learned_visits


class Finetune(Method):
    """Every task on its own from the base weights: the single-task baseline that FWT compares with."""

    arrangement = "alone"

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """One stage per task, independent of the others; a task that comes back is trained once."""
        visits = learned_visits(self.arrangement, stream.names)
        return tuple(Stage(n, stream.names[i], (i,), steps[i], start="base") for n, (i,) in enumerate(visits, 1))
