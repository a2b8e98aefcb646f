"""What the page gets: plain values without run, stage or weights, so that nobody can favour a checkpoint."""

from __future__ import annotations

import time
from typing import Any

from holdfast.console.agreement import Pair, compare
from holdfast.console.assignments import RESERVED, Assignments
from holdfast.console.attempts import WAYS, Attempt
from holdfast.console.run_scores import live
from holdfast.console.sheets import Sheet, counted
from holdfast.core.json_records import to_json
from holdfast.rubric import awarded, score

_RECENT = 12


def first_way(assignments: Assignments, now: float) -> str:
    """What a page opens with: the robot if one is tried now, by its picture or by a sheet that is open; else videos."""
    tried = [attempt for attempt in assignments.attempts if attempt.way == "robot"]
    runs = {attempt.run.path: attempt.run for attempt in tried}
    sheets = (sheet for attempt in tried for sheet in assignments.about(attempt.ticket) if sheet.state == "open")
    attached = any(live(run, now) for run in runs.values()) or any(abs(now - s.touched) < RESERVED for s in sheets)
    return "robot" if attached else "video"


def attempt_view(assignments: Assignments, attempt: Attempt, operator: str) -> dict[str, Any]:
    """An attempt with its rubric and this operator's sheet."""
    task = attempt.task
    return {
        "ticket": attempt.ticket,
        "way": attempt.way,
        "title": task.title,
        "instruction": task.instruction,
        "layout": attempt.layout,
        "number": len(assignments.of(operator)) + (assignments.sheet(attempt.ticket, operator).state != "submitted"),
        "panel": attempt.panel,
        "second": attempt.way == "video" and assignments.scored(attempt),  # compared, never counted
        "final": task.final,
        "milestones": [{"name": m.name, "text": m.text} for m in task.milestones],
        "penalties": [{"name": p.name, "text": p.text, "value": p.value, "most": p.most} for p in task.penalties],
        "sheet": sheet_view(attempt, assignments.sheet(attempt.ticket, operator)),
    }


def sheet_view(attempt: Attempt, sheet: Sheet) -> dict[str, Any]:
    """The marks that were not undone, and the score that the rubric gives them."""
    final = sheet.said("final", True)
    invalid = sheet.said("invalid", "")
    reached, penalties = counted(attempt.task, sheet)
    return {
        "ticket": attempt.ticket,
        "state": sheet.state,
        "marks": [{"kind": mark.kind, "value": to_json(mark.value)} for mark in sheet.marks],
        "awarded": list(awarded(attempt.task, reached, final, by_operator=True)),
        "score": None if invalid else score(attempt.task, reached, penalties, final, by_operator=True),
    }


def progress_view(assignments: Assignments, operator: str) -> dict[str, Any]:
    """How much is done, how long the rest will take at the pace so far, and the latest sheets."""
    done = assignments.of(operator)
    return {
        "ways": {way: _progress(assignments, way) for way in WAYS},
        "mine": len(done),
        "recent": [
            {
                "ticket": sheet.ticket,
                "way": assignments.find(sheet.ticket).way,
                "number": number,
                "title": assignments.find(sheet.ticket).task.title,
                "score": sheet.verdicts[-1].trial.score,
                "time": time.strftime("%H:%M", time.localtime(sheet.verdicts[-1].when)),
            }
            for number, sheet in list(enumerate(done, 1))[: -_RECENT - 1 : -1]
        ],
    }


def _progress(assignments: Assignments, way: str) -> dict[str, Any]:
    attempts = [attempt for attempt in assignments.attempts if attempt.way == way]
    left = sum(not assignments.scored(attempt) for attempt in attempts)
    sheets = [sheet for attempt in attempts for sheet in assignments.about(attempt.ticket) if sheet.stands]
    took = [min(RESERVED, sheet.verdicts[-1].when - sheet.opened) for sheet in sheets]
    return {
        "done": len(attempts) - left,
        "total": len(attempts),
        "tasks": len({attempt.task.name for attempt in attempts}),
        "twice": sum(sum(map(bool, assignments.raters(attempt))) > 1 for attempt in attempts),
        "seconds_left": left * sum(took) / len(took) if took else None,
    }


def agreement_view(assignments: Assignments) -> list[dict[str, Any]]:
    """Agreement of every two raters, as plain values."""
    return [_pair(pair) for pair in pairs(assignments)]


def pairs(assignments: Assignments) -> list[Pair]:
    """Agreement of every two raters of the same videos."""
    return compare([(a.task, assignments.raters(a)) for a in assignments.attempts if a.way == "video"])


def _pair(pair: Pair) -> dict[str, Any]:
    rows = [("all milestones", pair.overall), *pair.milestones.items()]
    return {
        "raters": list(pair.raters),
        "videos": pair.videos,
        "rows": [
            {"name": name, "count": a.count, "observed": a.observed, "kappa": a.kappa, "why": a.why} for name, a in rows
        ],
    }
