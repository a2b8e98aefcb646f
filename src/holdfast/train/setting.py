"""What stays the same through all stages of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from holdfast.core.records import Stage, Stream
from holdfast.embodiments.embodiment import Embodiment
from holdfast.methods.method import Method
from holdfast.runs.folder import RunFolder
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.ranks import ALONE, Ranks
from holdfast.train.shared_stages import SharedStages


@dataclass(frozen=True)
class Setting:
    """A run's settings, stream and folder, and where it is trained."""

    config: TrainConfig
    stream: Stream
    run: RunFolder
    embodiment: Embodiment | None
    device: str
    console: Console
    ranks: Ranks = ALONE

    @property
    def method(self) -> Method:
        """The method against forgetting."""
        return self.config.make_method()

    def arms(self, dimensions: Sequence[str]) -> list[str]:
        """The arm of every action dimension."""
        return [d.arm for d in self.embodiment.dimensions] if self.embodiment else ["all"] * len(dimensions)

    def note(self, message: str) -> None:
        """Tell the user how relative actions were decided, and log it."""
        self.run.log.write("relative_actions", note=message)
        self.run.say(message)

    @contextmanager
    def claimed(self, stage: Stage, key: str) -> Iterator[Path | None]:
        """Take a stage's steps for all runs that share them; yields the last state if another run took them already."""
        if not key or not self.ranks.first:
            yield None
            return
        shared = SharedStages(Path(self.config.share), self.run.say)
        with shared.claim(key, self.run.stage(stage)) as taken_over:
            if taken_over:
                self.run.log.write("taken_over", key=key)
            yield taken_over
