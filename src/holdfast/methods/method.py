"""What a method of continual learning says: which stages a stream has. It never touches data, loaders or evaluators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from holdfast.core.records import Stage, Stream


class Method(Protocol):
    """Turns a stream into stages. `keeps` says whether episodes are kept for replay."""

    keeps: bool

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """Stages with K = `steps` updates of new data, task by task."""
        ...


def start(position: int) -> Literal["base", "previous"]:
    """The first stage starts from the base weights, every other from the stage before."""
    return "previous" if position else "base"
