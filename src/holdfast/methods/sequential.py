"""One task after the other, nothing kept."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.records import Stage, Stream
from holdfast.methods.method import start


class Sequential:
    """One task after the other with nothing kept: the way to forget."""

    keeps = False

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """One stage per task, each from the weights of the one before."""
        return tuple(Stage(i + 1, name, (i,), steps[i], start=start(i)) for i, name in enumerate(stream.names))
