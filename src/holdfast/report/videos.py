"""Videos of trials: embedded in the page up to a budget, linked beyond it; attempts at one layout stand together."""

from __future__ import annotations

import base64
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
from PIL import Image

from holdfast.report.drawing import Drawing, finish, slug
from holdfast.report.gather import RunResults
from holdfast.report.strips import (
    FilmedTrial,
    Pictures,
    draw_strip,
    keyframe_pictures,
    of_one_layout,
    scaled,
    strip_pictures,
)
from holdfast.runs.paths import RunPaths

BUDGET = 20_000_000  # bytes of video in one page
_KINDS = {".mp4": "video/mp4", ".webm": "video/webm"}
_POSTER = 640  # pixels across the picture that stands for a video
_QUALITY = 70  # of JPEG


@dataclass(frozen=True)
class Clip(FilmedTrial):
    """A video in the page. `source` is a data URI, or a path relative to the page if not `inside`.

    `poster` is its last picture as a data URI, empty if it cannot be read. `strip` has its pictures at the milestones,
    if it was filmed after the last stage.
    """

    title: str
    source: str
    inside: bool
    poster: str
    strip: Pictures


@dataclass(frozen=True)
class Together:
    """Clips of the same task after the same stage at the same layout, one of every run that has one."""

    title: str
    stage: int
    layout: int | None
    clips: tuple[Clip, ...]


@dataclass(frozen=True)
class Strip:
    """A task after the last stage: an attempt of every run at the same layout, at its milestones."""

    title: str
    clips: tuple[Clip, ...]


def clips(runs: Sequence[RunResults], labels: Sequence[str], page: Path, budget: int = BUDGET) -> list[Clip]:
    """The videos of all runs in reading order. The first of every cell are embedded first, then the second ones."""
    found: list[tuple[int, int, FilmedTrial, RunResults]] = []
    for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
        seen: Counter[tuple[str, int]] = Counter()
        for trial in run.trials:
            file = RunPaths(run.path).find_video(trial.video, _KINDS) if trial.video else None
            if file:
                seen[trial.task, trial.stage] += 1
                film = FilmedTrial(place, label, trial, file)
                found.append((seen[trial.task, trial.stage], len(found), film, run))
    made: dict[int, Clip] = {}
    for _, position, film, run in sorted(found, key=lambda entry: entry[:2]):
        size = film.file.stat().st_size
        inside = size <= budget
        budget -= size if inside else 0
        made[position] = _clip(film, run, page, inside)
    return [made[position] for position in sorted(made)]


def _clip(film: FilmedTrial, run: RunResults, page: Path, inside: bool) -> Clip:
    trial, file = film.trial, film.file
    pictures = keyframe_pictures(file, trial)
    last = trial.stage == len(run.tasks)
    return Clip(
        film.place,
        film.label,
        trial,
        file,
        title=run.tasks[run.names.index(trial.task)].title,
        source=_inside(file) if inside else quote(os.path.relpath(file, page.resolve().parent)),
        inside=inside,
        poster=picture_uri(scaled(pictures[-1][1], _POSTER)) if pictures else "",
        strip=strip_pictures(trial, pictures) if last else [],
    )


def together(found: Sequence[Clip]) -> dict[str, list[Together]]:
    """By a task's title: its clips by stage and layout. An attempt without a seed has a layout of its own."""
    groups: dict[tuple[str, int, tuple[object, ...]], list[Clip]] = {}
    for number, clip in enumerate(found):
        trial = clip.trial
        layout = (trial.source, trial.level, trial.seed) if trial.seed is not None else (number,)
        groups.setdefault((clip.title, trial.stage, layout), []).append(clip)
    by_title: dict[str, list[Together]] = {}
    for (name, stage, _), own in groups.items():
        by_title.setdefault(name, []).append(Together(name, stage, own[0].trial.seed, tuple(own)))
    return {name: sorted(own, key=lambda group: group.stage) for name, own in by_title.items()}


def strips(found: Sequence[Clip]) -> list[Strip]:
    """A strip for every task that was filmed after the last stage."""
    filmed = [clip for clip in found if clip.strip]
    titles = dict.fromkeys(clip.title for clip in filmed)
    return [Strip(title, tuple(of_one_layout(clip for clip in filmed if clip.title == title))) for title in titles]


def strip_drawings(found: Sequence[Strip]) -> Iterator[Drawing]:
    """The strips for papers; the page shows the same pictures."""
    for number, strip in enumerate(found, 1):
        canvas = draw_strip([(clip, clip.strip) for clip in strip.clips])
        yield finish(canvas, f"strip-{number}-{slug(strip.title)}", "strips", strip.title)


def picture_uri(picture: np.ndarray) -> str:
    """A picture as a data URI."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def _inside(file: Path) -> str:
    return f"data:{_KINDS[file.suffix.lower()]};base64,{base64.b64encode(file.read_bytes()).decode()}"
