"""Strips of pictures: one attempt of every group at the same layout, at its milestones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.report.drawing import finish, slug
from holdfast.report.strips import (
    FilmedTrial,
    Keyframe,
    draw_strip,
    keyframe_pictures,
    of_one_layout,
    strip_pictures,
)
from holdfast.runs.paths import RunPaths
from holdfast.studies.figures.plot import Row, ShownGroup, ShownStream, StudyPlot


@dataclass(frozen=True)
class _Attempt(FilmedTrial):
    """A filmed trial of the last stage."""

    group: ShownGroup
    seed: int


def strips(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """A figure for every task that was filmed after the last stage."""
    for stream in streams:
        for number, task in enumerate(stream.numbers["tasks"], 1):
            shown = []
            for attempt in of_one_layout(_attempts(stream, task["name"])):
                pictures = keyframe_pictures(attempt.file, attempt.trial)
                if pictures:
                    shown.append((attempt, strip_pictures(attempt.trial, pictures)))
            if shown:
                name = f"{stream.prefix}strip-{number}-{slug(task['name'])}"
                rows = [row for attempt, pictures in shown for row in _rows(attempt, [k for k, _ in pictures])]
                yield StudyPlot(finish(draw_strip(shown), name, "strips", stream.title(task["title"])), rows)


def _attempts(stream: ShownStream, task: str) -> Iterator[_Attempt]:
    last = len(stream.numbers["tasks"])
    for group in stream.groups:
        for seed, run in sorted(group.group.runs.items()):
            for trial in run.trials:
                if trial.task == task and trial.stage == last and trial.video:
                    file = RunPaths(run.path).find_video(trial.video)
                    if file:
                        yield _Attempt(group.position, group.short, trial, file, group, seed)


def _rows(attempt: _Attempt, frames: Sequence[Keyframe]) -> Iterator[Row]:
    trial = attempt.trial
    for name, time in frames:
        yield {
            "group": attempt.group.label,
            "seed": attempt.seed,
            "task": trial.task,
            "layout": trial.seed,
            "score": trial.score,
            "picture": name,
            "seconds": time,
        }
