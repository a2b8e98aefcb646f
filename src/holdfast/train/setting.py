"""What stays the same through all stages of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from holdfast.core.records import Stage, Stream
from holdfast.data.cache.ahead import FutureCache, built_meanwhile
from holdfast.data.resize import Resize
from holdfast.embodiments.embodiment import Embodiment
from holdfast.methods.method import Method
from holdfast.runs.folder import RunFolder
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.ranks import ALONE, Ranks
from holdfast.train.plan import stages_of
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

    def frames_ahead(self, stage: Stage, resize: Resize | None) -> AbstractContextManager[None]:
        """Build the frame caches of the next stage while a GPU takes the steps of this one.

        Not where they are to take as little disk as possible.
        """
        following = stages_of(self.config, self.stream)[stage.number : stage.number + 1]
        if not following or self.device == "cpu" or not self.ranks.first or self.config.replay.store == "copy":
            return nullcontext()
        caches = []
        for task in (self.stream.tasks[i] for i in following[0].learns):
            wanted = self.run.frame_format(task.task.name, self.config.cache.format)
            caches.append(FutureCache(task, self.embodiment, resize, replace(self.config.cache, format=wanted)))
        return built_meanwhile(caches)

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
