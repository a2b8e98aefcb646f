"""Attempts to score: those still to be run on the robot, and those that were filmed.

The page identifies an attempt by its ticket, a hash with a secret key, and never gets its run, stage or weights. Sorted
by ticket they are in random order, which a restart keeps: the key is stored with the run's sheets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.arenas.board import PANEL
from holdfast.console.tickets import TicketKey
from holdfast.core.errors import HoldfastError
from holdfast.core.records import OPERATOR, Task, Trial, TrialProtocol
from holdfast.runs.paths import RolloutPaths, is_evaluation_video
from holdfast.runs.rollouts import read_rollout
from holdfast.runs.run import FinishedStage, Run

WAYS = ("robot", "video")


@dataclass(frozen=True)
class Attempt:
    """One attempt of one checkpoint. `judged` is the trial that its video already has, from a person or the twin."""

    ticket: str
    way: str
    run: Run
    task: Task
    stage: int
    layout: int | None = None
    video: str = ""
    panel: int = 0
    seconds: float = 0.0
    weights: str = ""
    normalization: str = ""
    protocol: TrialProtocol | None = None
    judged: Trial | None = None


class RunAttempts:
    """The attempts of one run. What can no longer change is read once."""

    def __init__(self, run: Run, key: TicketKey) -> None:
        """Files are read when they are needed; `key` is that of the tickets."""
        self.run, self._key = run, key
        self._slots: dict[tuple[str, int, int, int], Attempt] = {}
        self._rollouts: dict[RolloutPaths, Trial] = {}

    def ticket(self, *parts: object) -> str:
        """A name for an attempt that reveals nothing about it."""
        return self._key.ticket([self.run.seed, self.run.name, *parts])

    def task(self, name: str) -> Task:
        """A task of the run, with its rubric."""
        return next(task for task in self.run.tasks if task.name == name)

    @cached_property
    def cells(self) -> tuple[tuple[FinishedStage, Task], ...]:
        """Every finished stage with every task it has seen."""
        found = tuple((stage, self.task(name)) for stage in self.run.stages for name in stage.seen)
        bare = sorted({task.name for _, task in found if not task.milestones})
        if bare:
            raise HoldfastError(
                f"{self.run.path}: {', '.join(bare)} has no milestones, so it cannot be scored. "
                "Give its [[task]] some, in the stream's TOML file."
            )
        return found

    @cached_property
    def _hashes(self) -> dict[tuple[int, str], tuple[str, str]]:
        return {(stage.number, task.name): _hashes(stage, task.name) for stage, task in self.cells}

    def slot(self, stage: FinishedStage, task: Task, layout: int, repeat: int) -> Attempt:
        """The attempt of one cell on the robot with a layout; `repeat` counts those before it that were invalid."""
        key = (task.name, stage.number, layout, repeat)
        if key not in self._slots:
            weights, normalization = self._hashes[stage.number, task.name]
            ticket = self.ticket("robot", task.name, stage.number, layout - 1, *([repeat] if repeat else []))
            self._slots[key] = Attempt(
                ticket, "robot", self.run, task, stage.number, layout, weights=weights, normalization=normalization
            )
        return self._slots[key]

    def filmed(self, rollouts: Sequence[Trial], trials: Sequence[Trial]) -> Iterator[Attempt]:
        """Attempts with a video: rollouts, and trials of the twin that were filmed."""
        judged = {trial.video: trial for trial in trials if trial.video and trial.valid}
        for rollout in rollouts:
            first = judged.pop(rollout.video, None)
            if first or rollout.source == OPERATOR:  # a verdict on what a simulator did is never a trial of people
                yield self._attempt(rollout, first)
        rated = {task.name for task in self.run.tasks if task.milestones}
        for trial in judged.values():
            if trial.task in rated and self.run.paths.find_video(trial.video):
                yield self._attempt(trial, trial)

    def _attempt(self, source: Trial, judged: Trial | None) -> Attempt:
        return Attempt(
            self.ticket("video", source.video),
            "video",
            self.run,
            self.task(source.task),
            source.stage,
            video=source.video,
            panel=PANEL if is_evaluation_video(source.video) else 0,
            seconds=source.seconds,
            weights=source.weights,
            normalization=source.normalization,
            protocol=source.protocol,
            judged=judged,
        )

    def rollouts(self) -> list[Trial]:
        """The valid, complete rollouts of tasks and stages of the run."""
        cells = {(task.name, stage.number) for stage, task in self.cells}
        for files in self.run.paths.finished_rollouts():
            rollout = None if files in self._rollouts else read_rollout(files, self.run.paths)
            if rollout and (rollout.task, rollout.stage) in cells:
                self._rollouts[files] = rollout
        return list(self._rollouts.values())


def _hashes(stage: FinishedStage, task: str) -> tuple[str, str]:
    """Hashes of weights and normalization as recorded by training; they are verified when the weights are loaded."""
    files = stage.checkpoint
    normalization = files.normalization.execute(task).hash if files.normalization_file.exists() else ""
    return files.recorded_weights_hash, normalization
