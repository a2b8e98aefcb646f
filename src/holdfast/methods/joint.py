"""All tasks at once."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.records import Stage, Stream
from holdfast.methods.er import ExperienceReplay
from holdfast.methods.method import Method, learned_visits


class Joint(Method):
    """All tasks at once, each with the same share of every batch, for as many steps as replay would take."""

    arrangement = "together"

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """A single stage."""
        budget = sum(stage.steps for stage in ExperienceReplay().stages(stream, steps, frequency))
        (everything,) = learned_visits(self.arrangement, stream.names)
        return (Stage(1, "joint", everything, budget, start="base"),)
