"""All tasks so far at once, again and again."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.records import Stage, Stream
from holdfast.methods.er import ExperienceReplay
from holdfast.methods.method import Method


class JointCumulative(Method):
    """Trains anew after each task, from the base weights, on the new task and all kept episodes: an upper bound.

    Every task has the same share of a batch, the old ones by their kept episodes, so the memory is that of er. Stage k
    has as many steps as stages 1 to k of er together; the last stage has those of joint.
    """

    replays = True
    mix = "row"

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """One stage per visit of a task, each from the base."""
        lengths = [stage.steps for stage in ExperienceReplay().stages(stream, steps, frequency)]
        others = [len({*stream.names[:i]} - {name}) for i, name in enumerate(stream.names)]
        return tuple(
            Stage(i + 1, name, (i,), sum(lengths[: i + 1]), others[i] / (others[i] + 1), start="base")
            for i, name in enumerate(stream.names)
        )
