"""The four methods. A method only says which stages there are; it never touches data, loaders or evaluators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from holdfast.records import Stream
from holdfast.replay.schedule import stage_steps
from holdfast.train.config import TrainConfig


@dataclass(frozen=True)
class Stage:
    """One stretch of training: what it learns, for how long, from which weights, with how much replay."""

    number: int  # from 1
    name: str
    learns: tuple[int, ...]  # positions in the stream
    steps: int
    frequency: float = 0.0
    start: Literal["base", "previous"] = "previous"

    @property
    def folder(self) -> str:
        """Name of the stage's folder in a run."""
        return f"{self.number:02d}-{self.name}"


class Method(Protocol):
    """Turns a stream into stages. `keeps` says whether episodes are kept for replay."""

    keeps: bool

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """Stages with K = `steps` updates of new data, task by task."""
        ...


class Finetune:
    """Every task on its own from the base weights: the single-task baseline that FWT compares with."""

    keeps = False

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """One stage per task, none of which knows another."""
        return tuple(Stage(i + 1, name, (i,), steps[i], start="base") for i, name in enumerate(stream.names))


class Sequential:
    """One task after the other with nothing kept: the way to forget."""

    keeps = False

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """One stage per task, each from the weights of the one before."""
        return tuple(Stage(i + 1, name, (i,), steps[i], start=_start(i)) for i, name in enumerate(stream.names))


class ExperienceReplay:
    """One task after the other, with batches of kept episodes in between."""

    keeps = True

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """The first stage has nothing to replay; later ones are longer by 1 / (1 - f_r)."""
        replayed = [frequency if i else 0.0 for i in range(len(stream.names))]
        return tuple(
            Stage(i + 1, name, (i,), stage_steps(steps[i], replayed[i]), replayed[i], _start(i))
            for i, name in enumerate(stream.names)
        )


class Joint:
    """All tasks at once, each with the same share of every batch, for as many steps as replay would take."""

    keeps = False

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """A single stage."""
        budget = sum(stage.steps for stage in ExperienceReplay().stages(stream, steps, frequency))
        return (Stage(1, "joint", tuple(range(len(stream.tasks))), budget, start="base"),)


METHODS: dict[str, Method] = {
    "er": ExperienceReplay(),
    "sequential": Sequential(),
    "joint": Joint(),
    "finetune": Finetune(),
}


def stages_of(config: TrainConfig, stream: Stream) -> tuple[Stage, ...]:
    """The stages that a configuration makes of a stream."""
    steps = [config.task_steps.get(name, config.steps) for name in stream.names]
    return METHODS[config.method].stages(stream, steps, config.replay.frequency)


def _start(position: int) -> Literal["base", "previous"]:
    return "previous" if position else "base"
