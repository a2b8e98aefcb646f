"""What there is to score: attempts still to be run on the robot, and attempts that were filmed.

The page knows an attempt by its ticket, a hash, and never learns its run, stage or weights. Sorted by ticket, attempts
are in a random order that is a pure function of the run's seed and name, so a restart keeps it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Task, Trial
from holdfast.runs.run import WEIGHTS, FinishedStage, Run

PANEL = 320  # pixels at the right of a video of `holdfast evaluate`, in which the rubric ticks
WAYS = ("robot", "video")


@dataclass(frozen=True)
class Attempt:
    """One attempt of one checkpoint. `judged` is the trial that its video has already, whoever wrote it."""

    ticket: str
    way: str
    run: Run
    task: Task
    stage: int
    layout: int | None = None
    video: str = ""
    panel: int = 0
    seconds: float = 0.0
    policy: str = ""
    normalization: str = ""
    judged: Trial | None = None


@dataclass(frozen=True)
class Rollout:
    """A filmed attempt as `holdfast rollout` leaves it in `rollouts/NNNN`; it began at `when`."""

    video: str
    task: str
    stage: int
    seconds: float
    when: float
    policy: str
    normalization: str


class Folder:
    """A run whose attempts are scored. What cannot change any more is looked up once."""

    def __init__(self, run: Run) -> None:
        """Nothing is read before it is asked for."""
        self.run = run
        self._name = run.path.resolve().name
        self._slots: dict[tuple[str, int, int, int], Attempt] = {}
        self._rollouts: dict[Path, Rollout] = {}

    @cached_property
    def seed(self) -> int:
        """The run's own seed, from which the order of its attempts follows."""
        config = yaml.safe_load((self.run.path / "run.yaml").read_text())["config"]
        return int(config.get("seed") or 0)

    def ticket(self, *parts: object) -> str:
        """A name for an attempt that says nothing about it."""
        text = json.dumps([self.seed, self._name, *parts])
        return hashlib.sha256(text.encode()).hexdigest()[:20]

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
                f"{self.run.path}: {', '.join(bare)} has no milestones, so nobody can score it. "
                "Give its [[task]] some, in the stream's TOML file."
            )
        return found

    @cached_property
    def _hashes(self) -> dict[tuple[int, str], tuple[str, str]]:
        return {(stage.number, task.name): _hashes(stage, task.name) for stage, task in self.cells}

    def slots(self, stage: FinishedStage, task: Task, layouts: Sequence[int]) -> Iterator[Attempt]:
        """Attempts of one cell on the robot, one for each of the layouts."""
        for number, layout in enumerate(layouts):
            key = (task.name, stage.number, number, layout)
            if key not in self._slots:
                policy, normalization = self._hashes[stage.number, task.name]
                ticket = self.ticket("robot", *key[:3])
                self._slots[key] = Attempt(
                    ticket, "robot", self.run, task, stage.number, layout, policy=policy, normalization=normalization
                )
            yield self._slots[key]

    def filmed(self, rollouts: Sequence[Rollout], trials: Sequence[Trial]) -> Iterator[Attempt]:
        """Attempts with a video: rollouts, and trials of the twin that were filmed."""
        judged = {trial.video: trial for trial in trials if trial.video and trial.valid}
        for rollout in rollouts:
            yield self._attempt(rollout, judged.pop(rollout.video, None))
        for trial in judged.values():
            if trial.task in self.run.names and film(self.run, trial.video):
                yield self._attempt(trial, trial)

    def _attempt(self, source: Rollout | Trial, judged: Trial | None) -> Attempt:
        return Attempt(
            self.ticket("video", source.video),
            "video",
            self.run,
            self.task(source.task),
            source.stage,
            video=source.video,
            panel=PANEL if source.video.startswith("videos/") else 0,
            seconds=source.seconds,
            policy=source.policy,
            normalization=source.normalization,
            judged=judged,
        )

    def rollouts(self) -> list[Rollout]:
        """The whole and valid rollouts there are now, of tasks and stages of the run."""
        cells = {(task.name, stage.number) for stage, task in self.cells}
        for file in sorted((self.run.path / "rollouts").glob("*/rollout.json")):
            rollout = None if file in self._rollouts else _rollout(file, self.run)
            if rollout and (rollout.task, rollout.stage) in cells:
                self._rollouts[file] = rollout
        return list(self._rollouts.values())


def film(run: Run, video: str) -> Path | None:
    """The file of a video if it is there and lies in the run's own folder."""
    root = run.path.resolve()
    file = (root / video).resolve()
    return file if file.is_relative_to(root) and file.suffix.lower() == ".mp4" and file.is_file() else None


def _rollout(file: Path, run: Run) -> Rollout | None:
    """A rollout, or nothing where it is not valid or still being written."""
    video = str((file.parent / "video.mp4").relative_to(run.path))
    try:
        content: dict[str, Any] = json.loads(file.read_text())
        if not content.get("valid", True) or not film(run, video):
            return None
        return Rollout(
            video,
            str(content["task"]),
            int(content["stage"]),
            float(content.get("seconds") or 0.0),
            float(content.get("when") or 0.0),
            str(content.get("policy") or ""),
            str(content.get("normalization") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hashes(stage: FinishedStage, task: str) -> tuple[str, str]:
    """Hashes of a checkpoint as training wrote them down; whoever loads the weights verifies them."""
    policy = str(json.loads((stage.checkpoint / "manifest.json").read_text()).get(WEIGHTS, ""))
    known = (stage.checkpoint / "normalization.json").exists()
    return policy, stage.normalization.execute(task).hash if known else ""
