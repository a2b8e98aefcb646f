"""Experience replay: one task after the other, with kept episodes in between."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.records import Stage, Stream
from holdfast.methods.method import Method, start
from holdfast.replay.schedule import stage_steps


class ExperienceReplay(Method):
    """One task after the other, with kept episodes of earlier tasks mixed in."""

    replays = True

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """The first stage has nothing to replay; later ones are longer by 1 / (1 - f_r)."""
        replayed = [frequency if i else 0.0 for i in range(len(stream.names))]
        return tuple(
            Stage(i + 1, name, (i,), stage_steps(steps[i], replayed[i]), replayed[i], start(i))
            for i, name in enumerate(stream.names)
        )
