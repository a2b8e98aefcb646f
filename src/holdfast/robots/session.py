"""Attempts one after the other: connect, wait for the operator, run, write down what happened."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.core.clock import STEADY, Clock
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.robots.async_client import AsyncClient
from holdfast.robots.keys import GO, QUIT, Keys
from holdfast.robots.limits import Limits
from holdfast.robots.loop import Conduct, ControlLoop, Outcome, bring
from holdfast.robots.recorder import Dataset, Recorder
from holdfast.robots.robot import Robot
from holdfast.runs.trials import Trials


@dataclass(frozen=True)
class Book:
    """Where attempts are written down, and whose they are. Without a run only the dataset is written."""

    run: Path | None = None
    stage: int = 0
    policy: str = ""
    normalization: str = ""
    operator: str = ""
    dataset: Dataset | None = None

    def folder(self) -> Path | None:
        """A new folder `rollouts/NNNN` of the run."""
        if self.run is None:
            return None
        rollouts = self.run / "rollouts"
        rollouts.mkdir(exist_ok=True)
        number = max((int(path.name) for path in rollouts.iterdir() if path.name.isdigit()), default=0)
        while True:  # another process may take the same number
            number += 1
            try:
                (rollouts / f"{number:04d}").mkdir()
            except FileExistsError:
                continue
            return rollouts / f"{number:04d}"


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
    def notes(self) -> str:
        """How the attempts are run. Never what evaluation notes: its trials pass no limits, so they are others."""
        return f"rolled out, horizon {self.conduct.horizon}, asked {self.conduct.ahead} ahead"

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
        folder, when = self.book.folder(), time.time()
        live = self.book.run / "live.jpg" if self.book.run else None
        recorder = Recorder(self.robot, conduct.task, folder / "video.mp4" if folder else None, live, self.book.dataset)
        try:
            loop = ControlLoop(self.robot, self.client, self.limits, conduct, self.keys, recorder.see, self.clock)
            outcome = loop.run()
        finally:
            episode = recorder.close()
        trial = self._trial(conduct, outcome, when, folder)
        if folder:
            _write(folder / "rollout.json", self._content(conduct, outcome, trial, episode))
            self._count(trial)
        return Report(outcome, trial, folder)

    def _trial(self, conduct: Conduct, outcome: Outcome, when: float, folder: Path | None) -> Trial:
        """The attempt as a trial. One that is not valid has no seed, so that its layout can be tried again."""
        book = self.book
        common: dict[str, Any] = {
            "run": book.run.name if book.run else "",
            "policy": book.policy,
            "normalization": book.normalization,
            "video": f"rollouts/{folder.name}/video.mp4" if folder else "",
            "seconds": outcome.steps / self.robot.rate,
            "when": when,
        }
        scored = self.robot.trial(book.stage)
        if scored is not None and outcome.ended in ("over", "time"):
            return replace(scored, notes=self.notes, **common)
        source = "operator" if scored is None else scored.source
        valid = source == "operator" and outcome.ended in ("over", "time", "operator")
        task, operator = conduct.task.name, book.operator if source == "operator" else ""
        return Trial(task, book.stage, (), source=source, operator=operator, valid=valid, notes=outcome.why, **common)

    def _content(self, conduct: Conduct, outcome: Outcome, trial: Trial, episode: int | None) -> dict[str, Any]:
        return {
            "task": trial.task,
            "stage": trial.stage,
            "policy": trial.policy,
            "normalization": trial.normalization,
            "operator": self.book.operator,
            "seconds": trial.seconds,
            "when": trial.when,
            "source": trial.source,
            "valid": trial.valid,
            "why": outcome.why,
            "notes": self.notes,
            "limited": outcome.limited,
            "slow": outcome.slow,
            "stopped_after": outcome.stopped_after,
            "episode": episode,
            **({"seed": conduct.seed, "milestones": list(trial.milestones)} if self.robot.scores_itself else {}),
        }

    def _count(self, trial: Trial) -> None:
        """Add attempts that nobody has to score: scored ones, and those that do not count."""
        assert self.book.run is not None
        if trial.score is not None or not trial.valid:
            with Trials(self.book.run / "trials.sqlite") as trials:
                trials.add(trial)

    def _check_alike(self) -> None:
        """Trials of one cell are made alike, else their mean would say nothing."""
        if self.book.run is None or not self.robot.scores_itself:
            return
        asked = self.robot.level, self.notes
        with Trials(self.book.run / "trials.sqlite") as trials:
            known = trials.all(self.conduct.task.name, self.book.stage)
        for trial in known:
            alike = (trial.level, trial.notes) == asked or trial.operator or trial.seed is None
            if trial.policy == self.book.policy and not alike:
                raise HoldfastError(
                    f"{self.book.run} has trials of {trial.task!r} that were made otherwise ({trial.level}, "
                    f"{trial.notes}; now {asked[0]}, {asked[1]}), and their mean would say nothing. Leave --run away "
                    "and give --policy or --server alone, or use the same --level, --horizon and --ahead."
                )


def _write(file: Path, content: dict[str, Any]) -> None:
    """Write the file in one step, so that readers never see half of it."""
    aside = file.with_name(f".{file.name}")
    aside.write_text(json.dumps(content, indent=1))
    aside.replace(file)
