"""Attempts one after the other: connect, wait for the operator, run, write down what happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.core.clock import STEADY, Clock
from holdfast.core.errors import HoldfastError
from holdfast.core.records import OPERATOR, Trial, TrialProtocol
from holdfast.robots.async_client import AsyncClient
from holdfast.robots.keys import GO, QUIT, Keys
from holdfast.robots.limits import Limits
from holdfast.robots.loop import Conduct, ControlLoop, Outcome, bring
from holdfast.robots.recorder import Dataset, Recorder
from holdfast.robots.robot import Robot
from holdfast.runs.paths import RolloutPaths, RunPaths
from holdfast.runs.rollouts import Rollout, read_rollout, write_rollout
from holdfast.runs.trials import Trials


@dataclass(frozen=True)
class Book:
    """Where attempts are written down, and whose they are. Without a run only the dataset is written."""

    run: Path | None = None
    stage: int = 0
    weights: str = ""  # their SHA-256
    normalization: str = ""
    operator: str = ""
    dataset: Dataset | None = None

    @property
    def paths(self) -> RunPaths | None:
        """The run's files."""
        return RunPaths(self.run) if self.run else None


@dataclass(frozen=True)
class Report:
    """One attempt and where it was written down."""

    outcome: Outcome
    trial: Trial  # without a score where people score it
    folder: Path | None = None


@dataclass(frozen=True)
class Session:
    """What all attempts share."""

    robot: Robot
    client: AsyncClient
    limits: Limits
    conduct: Conduct
    keys: Keys
    book: Book
    say: Callable[[str], None]
    clock: Clock = STEADY

    @property
    def protocol(self) -> TrialProtocol:
        """How the attempts are made; never as evaluation does, whose trials pass no limits."""
        return TrialProtocol(self.conduct.horizon, self.conduct.ahead, limits=True)

    def run(self, trials: int) -> Iterator[Report]:
        """Attempts with seeds counting up from the conduct's; ends early when the operator quits or the robot fails."""
        self._check_alike()
        about, start = self.client.connect(), None
        for number in range(trials):
            if self.client.connect() != about:
                raise HoldfastError("The server that came back serves another policy. Start again to use that one.")
            conduct = replace(self.conduct, seed=self.conduct.seed + number)
            self.robot.begin(conduct.seed)
            if not self.robot.resets_itself and not self._started(number, trials, start):
                return
            start = self.robot.observe().state if start is None else start
            report = self._attempt(conduct)
            yield report
            if report.outcome.ended in ("quit", "fault"):
                return

    def _started(self, number: int, trials: int, start: np.ndarray | None) -> bool:
        """Wait for the operator, then take the arms back to where the first attempt began; False: the operator quit."""
        self.say(f"attempt {number + 1} of {trials}: lay the scene out. Space starts, q ends.")
        while (key := self.keys.pressed()) != GO:
            if key in QUIT:
                return False
            self.clock.sleep(0.02)
        if start is None:
            return True
        self.say("going to the start pose; any key stops it.")
        return bring(self.robot, self.limits, self.limits.start(start).pose, self.keys, clock=self.clock)

    def _attempt(self, conduct: Conduct) -> Report:
        paths, when = self.book.paths, time.time()
        files = paths.new_rollout() if paths else None
        video, live = files.video if files else None, paths.live_picture if paths else None
        recorder = Recorder(self.robot, conduct.task, video, live, self.book.dataset)
        try:
            loop = ControlLoop(self.robot, self.client, self.limits, conduct, self.keys, recorder.see, self.clock)
            outcome = loop.run()
        finally:
            episode = recorder.close()
        trial = self._trial(conduct, outcome, when, files)
        if files:
            self._count(trial)  # before the record, by which people find an attempt that nobody has scored
            write_rollout(files, self._rollout(conduct, outcome, trial, episode))
        return Report(outcome, trial, files.folder if files else None)

    def _trial(self, conduct: Conduct, outcome: Outcome, when: float, files: RolloutPaths | None) -> Trial:
        """The attempt as a trial. One that is not valid has no seed, so that its layout can be tried again."""
        book = self.book
        common: dict[str, Any] = {
            "run": book.run.name if book.run else "",
            "weights": book.weights,
            "normalization": book.normalization,
            "video": book.paths.relative(files.video) if book.paths and files else "",
            "seconds": outcome.steps / self.robot.rate,
            "when": when,
            "protocol": self.protocol,
        }
        scored = self.robot.trial(book.stage)
        if scored is not None and outcome.ended in ("over", "time"):
            return replace(scored, **common)
        source = OPERATOR if scored is None else scored.source
        valid = source == OPERATOR and outcome.ended in ("over", "time", "operator")
        task, operator = conduct.task.name, book.operator if source == OPERATOR else ""
        return Trial(task, book.stage, (), source=source, operator=operator, valid=valid, notes=outcome.why, **common)

    def _rollout(self, conduct: Conduct, outcome: Outcome, trial: Trial, episode: int | None) -> Rollout:
        simulated = trial.source != OPERATOR
        return Rollout(
            task=trial.task,
            stage=trial.stage,
            policy=trial.weights,
            normalization=trial.normalization,
            operator=self.book.operator,
            seconds=trial.seconds,
            when=trial.when,
            source=trial.source,
            valid=trial.valid,
            why=outcome.why,
            protocol=trial.protocol,
            limited=outcome.limited,
            slow=outcome.slow,
            stopped_after=outcome.stopped_after,
            episode=episode,
            seed=conduct.seed if simulated else None,
            milestones=trial.milestones if simulated else None,
        )

    def _count(self, trial: Trial) -> None:
        """Add attempts that nobody has to score: scored ones, and those that do not count."""
        assert self.book.paths is not None
        if trial.score is not None or not trial.valid:
            with Trials(self.book.paths.trials) as trials:
                trials.add(trial)

    def _check_alike(self) -> None:
        """Trials of one cell are made alike, else their mean would say nothing."""
        if self.book.paths is None:
            return
        begun = self.robot.trial(self.book.stage)
        asked = self.robot.level, self.protocol
        for trial in _known(self.book, self.conduct.task.name, begun.source if begun else OPERATOR):
            unknown = trial.source == OPERATOR and trial.protocol is None  # people may score what other programs did
            if not unknown and (trial.level, trial.protocol) != asked:
                made, now = (" ".join(filter(None, map(str, how))) for how in ((trial.level, trial.protocol), asked))
                raise HoldfastError(
                    f"{self.book.run} has attempts at {trial.task!r} that were made otherwise ({made or trial.notes}; "
                    f"now {now}), and their mean would say nothing. Leave --run away and give --policy or --server "
                    "alone, or use the same --level, --horizon and --ahead."
                )


def _known(book: Book, task: str, source: str) -> list[Trial]:
    """The trials of the cell that a source has judged; of people, also the attempts that they have not judged yet."""
    assert book.paths is not None
    with Trials(book.paths.trials) as trials:
        cell = trials.all(task, book.stage)
    known = [trial for trial in cell if trial.source == source and trial.valid]
    if source == OPERATOR:
        judged = {trial.video for trial in cell if trial.source == source}
        filmed = (read_rollout(files, book.paths) for files in book.paths.finished_rollouts())
        waiting = (one for one in filmed if one and one.source == source and one.video not in judged)
        known += [one for one in waiting if (one.task, one.stage) == (task, book.stage)]
    else:
        known = [trial for trial in known if trial.seed is not None and not trial.operator]  # people may correct some
    return [trial for trial in known if trial.weights == book.weights]
