"""Who scores what: assigns attempts, stores marks, and turns finished sheets into ordinary trials.

The first verdict on an attempt is its trial. Later verdicts on the same video, and all verdicts on a video that the
twin has scored, are ratings: kept on their sheets, compared, never counted as a second trial.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from holdfast.console.attempts import Attempt
from holdfast.console.run_scores import RunScores
from holdfast.console.sheets import MARKS, VERDICTS, Judgement, Sheet, as_stored, check_rubric, checked_value, counted
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import OPERATOR, Trial
from holdfast.rubric import score
from holdfast.runs.run import Run
from holdfast.runs.trials import checked, trial_to_row

RESERVED = 600.0  # seconds without an event after which an attempt may be reassigned
_RATERS = 2  # people who rate one video


class RefusedError(HoldfastError):
    """A request that is invalid; the text may be shown to the operator. `status` is that of HTTP."""

    status = 422


class UnknownAttemptError(RefusedError):
    """A ticket of no attempt here; another console may know it, so the page keeps the event."""

    status = 404


class UsedKeyError(RefusedError):
    """An event with the key of another one."""

    status = 409


class Assignments:
    """All runs that are scored together. Calls may be repeated: events are identified by their key."""

    def __init__(self, runs: Sequence[Run], target: int, clock: Callable[[], float] = time.time) -> None:
        """Open the runs' sheets, and write the trials that a kill left unwritten.

        Args:
            runs: Runs to compare.
            target: Trials per cell on the robot.
            clock: Unix time.
        """
        names = [run.name for run in runs]
        for name in names:
            if name.encode(errors="ignore").decode() != name:
                raise HoldfastError(
                    f"The run's name {name!r} is not UTF-8, so no trial can hold it. Rename its folder."
                )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise HoldfastError(f"Two runs are called {twice[0]!r}; their trials cannot be told apart. Rename one.")
        self._clock = clock
        self._runs = [RunScores(run, target, clock) for run in runs]
        for scores in self._runs:
            for sheet in scores.sheets.all():
                try:
                    _settle(scores, sheet)
                except HoldfastError as error:  # the other sheets can still be used
                    print(f"holdfast: the trial of {sheet.operator!r} was not written. {error}", file=sys.stderr)
        self._ranks = {name: i for i, name in enumerate(dict.fromkeys(n for run in runs for n in run.names))}
        self.refresh()
        self._name_foreign_marks()

    def close(self) -> None:
        """Close the runs' files."""
        for run in self._runs:
            run.close()

    def refresh(self) -> None:
        """Read the run folders again."""
        self._places = {attempt.ticket: (run, attempt) for run in self._runs for attempt in run.attempts()}

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts, scored or not."""
        return [attempt for _, attempt in self._places.values()]

    def find(self, ticket: str) -> Attempt:
        """The attempt of a ticket, even if it is no longer needed: somebody may be at it."""
        if ticket not in self._places:
            self.refresh()
            self._places.update((ticket, (run, run.slots[ticket])) for run in self._runs if ticket in run.slots)
        if ticket not in self._places:
            raise UnknownAttemptError("There is no such attempt here. Load the page again.")
        return self._places[ticket][1]

    def about(self, ticket: str) -> list[Sheet]:
        """All sheets of an attempt."""
        self.find(ticket)
        return self._places[ticket][0].sheets.about(ticket)

    def sheet(self, ticket: str, operator: str) -> Sheet:
        """The sheet of one operator for an attempt."""
        self.find(ticket)
        return self._places[ticket][0].sheets.of(ticket, operator)

    def of(self, operator: str) -> list[Sheet]:
        """The sheets an operator has submitted, in order of submission."""
        sheets = [s for run in self._runs for s in run.sheets.all() if s.operator == operator]
        here = [sheet for sheet in sheets if sheet.stands and sheet.ticket in self._places]
        return sorted(here, key=lambda sheet: sheet.verdicts[-1].when)

    def next(self, operator: str, way: str) -> Attempt | None:
        """The operator's open attempt, or else the next one."""
        self.refresh()
        here: Attempt | None = None
        for sheet in self._open(operator):
            run, attempt = self._places[sheet.ticket]
            if here is None and attempt.way == way and not self._taken(attempt, operator):
                here = attempt
            else:
                self._write(run, attempt, operator, "release")
        if here:
            return here
        for attempt in self._queue(operator, way):
            run = self._places[attempt.ticket][0]
            with run.sheets.explained(), run.sheets.writing():
                run.sheets.refresh()
                free = not self._taken(attempt, operator)
                if free:
                    run.sheets.add(uuid.uuid4().hex, attempt.ticket, operator, "open", None)
            if free:
                run.sheets.refresh()
                run.announce()
                return attempt
        return None

    def tell(self, operator: str, ticket: str, key: str, kind: str, value: Any) -> Sheet:
        """Store one event of a sheet and return the sheet. A verdict sent again writes what is missing of its trial."""
        if kind == "submit":
            self.refresh()
        attempt = self.find(ticket)
        run = self._places[ticket][0]
        try:
            value = _told(attempt, kind, value)
        except HoldfastError as error:
            raise RefusedError(str(error)) from None
        run.sheets.refresh()
        sheet = run.sheets.of(ticket, operator)
        if not _known(run, key, sheet, kind, value):
            if sheet.state == "released" and kind != "withdraw":
                self._write(run, attempt, operator, "open")
            self._write(run, attempt, operator, kind, value, key)
        if kind in VERDICTS:
            _settle(run, sheet)
            run.announce()
        return sheet

    def raters(self, attempt: Attempt) -> dict[str, tuple[str, ...]]:
        """The milestones by rater of an attempt; the twin's own scorer has the name ''."""
        said = {s.operator: s.milestones for s in self.about(attempt.ticket) if s.stands and s.stands.trial.valid}
        judged = attempt.judged
        return said if judged is None else {judged.operator: judged.milestones, **said}

    def scored(self, attempt: Attempt) -> bool:
        """Whether the attempt was judged: it has a trial, or was found invalid. A rating alone is neither."""
        verdicts = [sheet.stands for sheet in self.about(attempt.ticket)]
        return attempt.judged is not None or any(v and (v.counts or not v.trial.valid) for v in verdicts)

    def _open(self, operator: str) -> list[Sheet]:
        """An operator's open sheets, most recent first."""
        sheets = [s for run in self._runs for s in run.sheets.all() if s.operator == operator]
        here = [sheet for sheet in sheets if sheet.state == "open" and sheet.ticket in self._places]
        return sorted(here, key=lambda sheet: -sheet.touched)

    def _queue(self, operator: str, way: str) -> Iterator[Attempt]:
        """Unscored attempts first; then videos that this operator has not rated.

        On the robot, one layout of one task is tried with all checkpoints in random order before the next.
        """
        mine = [attempt for attempt in self.attempts if attempt.way == way]
        fresh = [attempt for attempt in mine if not self.scored(attempt)]
        yield from sorted(fresh, key=lambda a: (self._ranks[a.task.name] if a.layout else 0, a.layout or 0, a.ticket))
        if way == "video":
            seen = [(attempt, self.raters(attempt)) for attempt in mine if self.scored(attempt)]
            again = [(sum(map(bool, by)), a.ticket, a) for a, by in seen if by and operator not in by]
            yield from (attempt for people, _, attempt in sorted(again, key=lambda e: e[:2]) if people < _RATERS)

    def _taken(self, attempt: Attempt, operator: str) -> bool:
        others = [s for s in self.about(attempt.ticket) if s.operator != operator and s.state == "open"]
        return any(abs(self._clock() - sheet.touched) < RESERVED for sheet in others)  # the clock may be set back

    def _write(
        self, run: RunScores, attempt: Attempt, operator: str, kind: str, value: Any = None, key: str | None = None
    ) -> None:
        with run.sheets.explained(), run.sheets.writing():
            run.sheets.refresh()
            _check_state(run.sheets.of(attempt.ticket, operator), kind)
            if kind in VERDICTS:
                value = self._verdict(run, attempt, operator, kind)
            run.sheets.add(key or uuid.uuid4().hex, attempt.ticket, operator, kind, value)
        run.sheets.refresh()

    def _verdict(self, run: RunScores, attempt: Attempt, operator: str, kind: str) -> Judgement:
        sheet = run.sheets.of(attempt.ticket, operator)
        if kind == "withdraw":
            last = sheet.verdicts[-1]
            taken_back = replace(last.trial, valid=False, score=None, notes="withdrawn by the operator")
            return Judgement(trial_to_row(taken_back), last.counts)
        others = [s for s in self.about(attempt.ticket) if s.operator != operator]
        rated = attempt.judged is not None or any(s.stands and s.stands.counts for s in others)
        trial = checked(_trial(run, attempt, sheet))
        return Judgement(trial_to_row(trial), attempt.way == "robot" or not rated)

    def _name_foreign_marks(self) -> None:
        """Say which marks are not in their rubric, so that they do not count."""
        for run, attempt in self._places.values():
            for mark in (mark for sheet in run.sheets.about(attempt.ticket) for mark in sheet.marks):
                try:
                    check_rubric(attempt.task, mark.kind, mark.value)
                except HoldfastError as error:
                    run.sheets.set_aside(mark.row, error)


def _known(run: RunScores, key: str, sheet: Sheet, kind: str, value: Any) -> bool:
    """Whether this event was stored before; the key of another one is refused."""
    stored = run.sheets.stored(key)
    if stored is None:
        return False
    said = (sheet.ticket, sheet.operator, kind, as_stored(value))
    if stored[:3] != said[:3] or (kind not in VERDICTS and stored != said):  # a verdict is stored with its trial
        raise UsedKeyError("Another event has this key. Load the page again.")
    return True


def _check_state(sheet: Sheet, kind: str) -> None:
    """Refuse an event that its sheet cannot take now."""
    if sheet.state == "submitted" and kind != "withdraw":
        raise RefusedError("This trial is already saved. Undo that before you change it.")
    if sheet.state != "submitted" and kind == "withdraw":
        raise RefusedError("This trial is not saved, so there is nothing to withdraw.")


def _told(attempt: Attempt, kind: str, value: Any) -> Any:
    """What a page says, checked: a mark of the rubric, or an event without a value."""
    if kind in (*VERDICTS, "undo"):
        return checked_value("undo", value)
    if kind not in MARKS:
        raise unknown("mark", kind[:20], MARKS)
    value = checked_value(kind, value)
    check_rubric(attempt.task, kind, value)
    return value


def _trial(run: RunScores, attempt: Attempt, sheet: Sheet) -> Trial:
    """A finished sheet as an ordinary trial, scored by the rubric."""
    reason = sheet.said("invalid", "")
    reached, penalties = counted(attempt.task, sheet)
    final = sheet.said("final", True)
    rollout = run.recording(attempt, sheet) if attempt.way == "robot" else None
    return Trial(
        task=attempt.task.name,
        stage=attempt.stage,
        milestones=reached,
        penalties=penalties,
        final=final,
        source=OPERATOR,
        notes="; ".join(filter(None, (f"invalid: {reason}" if reason else "", sheet.said("note", "")))),
        run=attempt.run.name,
        operator=sheet.operator,
        times={name: at for name, at in sheet.times.items() if name in reached},
        seconds=rollout.seconds if rollout else attempt.seconds or sheet.said("clock", 0.0),
        score=None if reason else score(attempt.task, reached, penalties, final, by_operator=True),
        video=rollout.video if rollout else attempt.video,
        weights=(rollout.weights if rollout else "") or attempt.weights,
        normalization=(rollout.normalization if rollout else "") or attempt.normalization,
        valid=not reason,
        protocol=rollout.protocol if rollout else attempt.protocol,
    )


def _settle(run: RunScores, sheet: Sheet) -> None:
    """Write the trials of a sheet's verdicts; existing ones are not written again."""
    before: int | None = None
    for verdict in sheet.verdicts:
        if verdict.trial.task not in run.run.names:
            raise unknown("task of the run", verdict.trial.task, run.run.names)
        if verdict.counts:
            before = run.trials.add(replace(verdict.trial, when=verdict.when), supersedes=before)
