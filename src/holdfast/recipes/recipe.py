"""A named experiment as data, and as the commands that carry it out.

A recipe says what to record, how to train and how to evaluate. It runs as ordinary `holdfast` commands, so users see
the commands they can run themselves; each command skips what is already done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast import catalog
from holdfast.core.errors import unknown
from holdfast.train.config import TrainConfig
from holdfast.train.config_flags import flags
from holdfast.train.plan import stages_of

type CommandLine = tuple[str, ...]
type Chain = tuple[CommandLine, ...]  # commands that run one after another
# The trainings that each named part of an experiment compares; parts may share some.
type Parts = dict[str, tuple[TrainConfig, ...]]


@dataclass(frozen=True)
class Record:
    """Demonstrations of the arena's experts to record, for every task of the recipe."""

    episodes: int
    size: int
    seed: int


@dataclass(frozen=True)
class Evaluate:
    """Trials in the arena, for every cell of every run."""

    trials: int
    horizon: int
    videos: int = 1
    first_seed: int = 0  # of the layouts


@dataclass(frozen=True)
class Recipe:
    """Record, train one run per config, evaluate all, report on all.

    Trainings run side by side, unless each `fills_gpu`. On a CPU no core waits: trainings start as soon as their first
    task is recorded, and trials as soon as one run is trained. On a GPU, what runs beside a training would slow it down
    more than it gains.
    """

    name: str
    tasks: tuple[str, ...]
    data: Path
    parts: Parts
    preset: str = ""  # that all trainings are based on
    arena: str = "twin"
    record: Record | None = None
    evaluate: Evaluate | None = None
    fills_gpu: bool = False

    def only(self, names: Sequence[str]) -> Recipe:
        """The recipe with the named parts only."""
        for name in names:
            if name not in self.parts:
                raise unknown(f"part of recipe {self.name!r}", name, self.parts)
        return replace(self, parts={name: self.parts[name] for name in names})

    @property
    def train(self) -> tuple[TrainConfig, ...]:
        """The trainings of all parts, each once."""
        return tuple({config.folder: config for part in self.parts.values() for config in part}.values())

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of the runs."""
        return tuple(Path(config.folder) for config in self.train)

    @property
    def shared(self) -> tuple[Path, ...]:
        """The folders through which trainings share stages; of no use when all are trained."""
        return tuple({Path(config.share) for config in self.train if config.share})

    def phases(self, cores: int) -> list[list[Chain]]:
        """The commands in order; the chains of one phase run in parallel and share the cores."""
        if self.record and self.evaluate and all(config.device == "cpu" for config in self.train):
            return [[(self._recording(cores),), *self._trained_and_tried()], [(self._report,)]]
        phases: list[list[Chain]] = []
        if self.record:
            phases.append([(self._recording(cores),)])
        trainings: list[Chain] = [(self._training(config),) for config in self.train]
        phases += [[training] for training in trainings] if self.fills_gpu else [trainings]
        if self.evaluate:
            phases += [[(self._evaluation(self.runs),)], [(self._report,)]]
        return phases

    def _trained_and_tried(self) -> list[Chain]:
        """Trainings that wait for their data. Trials wait for stages, once the shortest training leaves a core."""
        shortest, *others = [self._training(replace(config, wait=True)) for config in sorted(self.train, key=steps_of)]
        return [(shortest, (*self._evaluation(self.runs), "--wait")), *((training,) for training in others)]

    def _training(self, config: TrainConfig) -> CommandLine:
        return ("train", *flags(config, self.preset))

    def _recording(self, processes: int) -> CommandLine:
        assert self.record
        record = self.record
        return (
            *("record", "--tasks", *self.tasks, "--episodes", str(record.episodes), "--size", str(record.size)),
            *self._in_arena,
            *("--seed", str(record.seed), "--output", str(self.data), "--processes", str(processes)),
        )

    def _evaluation(self, runs: Sequence[Path]) -> CommandLine:
        assert self.evaluate
        trials = self.evaluate
        return (
            *("evaluate", *map(str, runs), "--trials", str(trials.trials), "--horizon", str(trials.horizon)),
            *("--videos", str(trials.videos), *self._in_arena),
            *(("--first-seed", str(trials.first_seed)) if trials.first_seed else ()),
        )

    @property
    def _report(self) -> CommandLine:
        return ("report", *map(str, self.runs))

    @property
    def _in_arena(self) -> CommandLine:
        return () if self.arena == "twin" else ("--arena", self.arena)


def without_and_with_replay(output: Path, seed: int, **settings: Any) -> tuple[TrainConfig, TrainConfig]:
    """Two trainings in `output` that differ in nothing but replay; they share their first stage, which is the same."""

    def config(method: str) -> TrainConfig:
        return TrainConfig(
            method=method,
            data_root=str(output / "data"),
            output=str(output / method),
            share=str(output / "shared"),
            seed=seed,
            **settings,
        )

    return config("sequential"), config("er")


def steps_of(config: TrainConfig) -> int:
    """Steps of a training in all."""
    return sum(stage.steps for stage in stages_of(config, catalog.load_stream(config.stream, config.data_root)))
