"""Scoring of one run: its current attempts, its sheets, and the file that tells the robot's driver what to load."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from holdfast.console.attempts import Attempt, RunAttempts
from holdfast.console.sheets import Sheet, Sheets
from holdfast.core.files import write_text
from holdfast.core.records import OPERATOR, Task, Trial
from holdfast.runs.run import FinishedStage, Run
from holdfast.runs.trials import Trials

FRESH = 2.0  # seconds for which a picture counts as live


class RunScores:
    """A run, its score sheets and its trials."""

    def __init__(self, run: Run, target: int, clock: Callable[[], float]) -> None:
        """Open the run's sheets; `target` is the number of trials per cell on the robot."""
        self.run, self._target, self._clock = run, target, clock
        self.sheets = Sheets(run.paths.sheets, clock)
        self._found = RunAttempts(run, self.sheets.key)
        self.trials = Trials(run.trials)
        self.slots: dict[str, Attempt] = {}

    def close(self) -> None:
        """Close its files."""
        self.sheets.close()
        self.trials.close()

    def attempts(self) -> Iterator[Attempt]:
        """Attempts to run on the robot (slots), and videos that belong to none of them."""
        self.sheets.refresh()
        trials = self.trials.all()
        cells = {(s.number, t.name): self._slots_of(s, t) for s, t in self._found.cells}
        self.slots = {attempt.ticket: attempt for slots in cells.values() for attempt in slots}
        rollouts = self._found.rollouts()
        claimed = self._claimed(rollouts)
        filmed = [a for a in self._found.filmed(rollouts, trials) if a.judged or a.video not in claimed]
        yield from filmed
        for (stage, task), slots in cells.items():
            waiting = [a for a in filmed if (a.stage, a.task.name) == (stage, task) and not a.judged]
            yield from self._needed(slots, len(waiting) + self._elsewhere(slots, trials))

    def recording(self, attempt: Attempt, sheet: Sheet) -> Trial | None:
        """The newest rollout of a robot in the attempt's cell that was filmed while the sheet was open."""
        robots = (rollout for rollout in self._found.rollouts() if rollout.source == OPERATOR)
        found = [r for r in robots if self._during(r, attempt, sheet.opened, self._clock())]
        return max(found, key=lambda rollout: rollout.when, default=None)

    def announce(self) -> None:
        """Write the wanted checkpoints to a file for the robot's driver; the page never shows it."""
        waiting = [
            {"ticket": a.ticket, "operator": s.operator, "task": a.task.name, "stage": a.stage, "layout": a.layout}
            for a in self.slots.values()
            for s in self.sheets.about(a.ticket)
            if s.state == "open"
        ]
        file = self.run.paths.next_attempts
        if not waiting and not file.exists():
            return
        write_text(file, json.dumps({"attempts": waiting}, indent=1) + "\n")

    def _slots_of(self, stage: FinishedStage, task: Task) -> list[Attempt]:
        """The cell's slots: one per layout, another after every invalid attempt, and all that were begun."""
        slots: list[tuple[int, Attempt]] = []
        for layout in range(1, self._target + 1):
            for repeat in count():
                slot = self._found.slot(stage, task, layout, repeat)
                if repeat and not self._invalid(slots[-1][1]) and not self.sheets.begun(slot.ticket):
                    break
                slots.append((repeat, slot))
        return [slot for _, slot in sorted(slots, key=lambda entry: entry[0])]

    def _invalid(self, slot: Attempt) -> bool:
        verdicts = [sheet.stands for sheet in self.sheets.about(slot.ticket)]
        return any(verdict and not verdict.trial.valid for verdict in verdicts)

    def _elsewhere(self, slots: Sequence[Attempt], trials: Sequence[Trial]) -> int:
        """The number of valid trials of operators from videos or from a CSV file."""
        own = {s.stands.when for slot in slots for s in self.sheets.about(slot.ticket) if s.stands}
        cell = (slots[0].stage, slots[0].task.name) if slots else None
        return sum((t.stage, t.task) == cell and t.source == OPERATOR and t.valid and t.when not in own for t in trials)

    def _needed(self, slots: Sequence[Attempt], spare: int) -> list[Attempt]:
        """The slots in use, and as many of the others as are still needed."""
        used = [slot for slot in slots if any(s.state != "released" for s in self.sheets.about(slot.ticket))]
        others = [slot for slot in slots if slot not in used]
        missing = self._target - spare - sum(not self._invalid(slot) for slot in used)
        return used + others[: max(0, missing)]

    def _claimed(self, rollouts: Sequence[Trial]) -> set[str]:
        """Videos of attempts that were scored live, before the video was written."""
        sheets = [(slot, sheet) for slot in self.slots.values() for sheet in self.sheets.about(slot.ticket)]
        scored = [(slot, sheet.opened, sheet.stands.when) for slot, sheet in sheets if sheet.stands]
        return {r.video for r in rollouts if any(self._during(r, *entry) for entry in scored)}

    @staticmethod
    def _during(rollout: Trial, attempt: Attempt, start: float, end: float) -> bool:
        same = (rollout.task, rollout.stage) == (attempt.task.name, attempt.stage)
        return same and rollout.when + rollout.seconds >= start and rollout.when <= end


def live(run: Run, now: float) -> Path | None:
    """The picture that a running rollout keeps writing; None if it is out of date."""
    file = run.paths.find_file(run.paths.relative(run.paths.live_picture))
    try:
        return file if file and now - file.stat().st_mtime < FRESH else None
    except OSError:
        return None
