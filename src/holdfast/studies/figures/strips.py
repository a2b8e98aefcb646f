"""Strips of pictures: one attempt of every group at the same layout, at its milestones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from PIL import Image

from holdfast.arenas.board import without_rubric
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.data.lerobot.open_video import open_video
from holdfast.report.drawing import finish, slug
from holdfast.runs.paths import RunPaths, is_evaluation_video
from holdfast.studies.figures.labels import wrapped
from holdfast.studies.figures.plot import Row, ShownGroup, ShownStream, StudyPlot

_MOST = 7  # pictures of a strip
_WIDTH = 200  # pixels of a picture
_LARGEST = 4096  # pixels of a side; no camera of ours films larger videos
_LONGEST = 20_000  # pictures of a video that are looked at


type Keyframe = tuple[str, float]  # what happens, and when


@dataclass(frozen=True)
class _Attempt:
    """A filmed trial of the last stage."""

    group: ShownGroup
    seed: int
    trial: Trial
    file: Path


def strips(streams: Sequence[ShownStream]) -> Iterator[StudyPlot]:
    """A figure for every task that was filmed after the last stage."""
    for stream in streams:
        for number, task in enumerate(stream.numbers["tasks"], 1):
            shown = []
            for attempt in _of_one_layout(_attempts(stream, task["name"])):
                pictures = keyframe_pictures(attempt.file, attempt.trial)
                if pictures:
                    shown.append((attempt, pictures))
            if shown:
                name = f"{stream.prefix}strip-{number}-{slug(task['name'])}"
                rows = [row for attempt, pictures in shown for row in _rows(attempt, [k for k, _ in pictures])]
                yield StudyPlot(finish(_draw(shown), name, "strips", stream.title(task["title"])), rows)


def _attempts(stream: ShownStream, task: str) -> Iterator[_Attempt]:
    last = len(stream.numbers["tasks"])
    for group in stream.groups:
        for seed, run in sorted(group.group.runs.items()):
            for trial in run.trials:
                if trial.task == task and trial.stage == last and trial.video:
                    file = RunPaths(run.path).find_video(trial.video)
                    if file:
                        yield _Attempt(group, seed, trial, file)


def _of_one_layout(attempts: Iterator[_Attempt]) -> list[_Attempt]:
    """The first attempt of every group at the layout that most groups were filmed at."""
    by_layout: dict[tuple[str, str, int | None], dict[int, _Attempt]] = {}
    for attempt in attempts:
        trial = attempt.trial
        layout = trial.source, trial.level, trial.seed
        by_layout.setdefault(layout, {}).setdefault(attempt.group.position, attempt)
    counts = Counter({layout: len(found) for layout, found in by_layout.items()})
    return list(by_layout[counts.most_common(1)[0][0]].values()) if counts else []


def _keyframes(trial: Trial) -> list[Keyframe]:
    """The start, the milestones in the order of their times, and the end if nothing was reached there."""
    reached = sorted(((time, name.replace("_", " ")) for name, time in trial.times.items()))
    frames = [("start", 0.0), *((name, time) for time, name in reached)]
    if trial.seconds > frames[-1][1] + 0.5:
        frames.append(("end", trial.seconds))
    if len(frames) > _MOST:
        frames = [frames[round(n * (len(frames) - 1) / (_MOST - 1))] for n in range(_MOST)]
    return frames


def keyframe_pictures(file: Path, trial: Trial) -> list[tuple[Keyframe, np.ndarray]]:
    """The keyframes of a trial with their pictures; empty if the file is not a video that can be read."""
    import av

    frames, found = _keyframes(trial), list[tuple[Keyframe, np.ndarray]]()
    picture = None
    try:
        with open_video(file) as (container, stream):
            if max(stream.width, stream.height) > _LARGEST:
                return []
            for picture in islice(container.decode(stream), _LONGEST):
                while len(found) < len(frames) and (picture.time or 0.0) >= frames[len(found)][1] - 0.01:
                    found.append((frames[len(found)], picture.to_ndarray(format="rgb24")))
                if len(found) == len(frames):
                    break
            if picture is None:
                return []
            # A film may end a little before its trial.
            found += [(frame, picture.to_ndarray(format="rgb24")) for frame in frames[len(found) :]]
    except (av.FFmpegError, HoldfastError, IndexError, OSError, ValueError):
        return []
    film = is_evaluation_video(trial.video)
    return [(frame, _small(without_rubric(picture) if film else picture)) for frame, picture in found]


def _small(picture: np.ndarray) -> np.ndarray:
    """A smaller picture; two views side by side come one above the other, since strips are long enough."""
    height, width, _ = picture.shape
    if width >= 2 * height:
        picture = np.vstack(np.hsplit(picture[:, : width // 2 * 2], 2))
    image = Image.fromarray(picture)
    height = max(1, round(image.height * _WIDTH / image.width))
    return np.asarray(image.resize((_WIDTH, height), Image.Resampling.LANCZOS))


def _draw(shown: Sequence[tuple[_Attempt, list[tuple[Keyframe, np.ndarray]]]]) -> Canvas:
    across = max(len(pictures) for _, pictures in shown)
    tall = max(picture.shape[0] / picture.shape[1] for _, pictures in shown for _, picture in pictures)
    canvas = Canvas(figsize=(1.02 * across, len(shown) * (tall + 0.55)), layout="constrained")
    grid = canvas.subplots(len(shown), across, squeeze=False)
    for line, (attempt, pictures) in zip(grid, shown, strict=True):
        for axes in line[len(pictures) :]:
            axes.remove()
        for axes, (frame, picture) in zip(line, pictures, strict=False):
            _show(axes, frame, picture)
        score = "" if attempt.trial.score is None else f": {attempt.trial.score:.0f}"
        line[0].set_title(
            wrapped(f"{attempt.group.short}{score}", 16 * across), loc="left", fontsize=8, fontweight="bold"
        )
    return canvas


def _show(axes: Axes, frame: Keyframe, picture: np.ndarray) -> None:
    axes.imshow(picture, interpolation="none")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    name, time = frame
    axes.set_xlabel(f"{wrapped(name, 16)}\n{time:.1f} s", fontsize=7)


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
