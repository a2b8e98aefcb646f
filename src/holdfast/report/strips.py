"""Strips of pictures: attempts at the same layout, each as its pictures at the milestones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from PIL import Image

from holdfast.arenas.board import without_rubric
from holdfast.core.records import Trial
from holdfast.report.drawing import wrapped
from holdfast.runs.paths import is_evaluation_video

_MOST = 7  # pictures of a strip
_WIDTH = 200  # pixels of a picture
_LARGEST = 4096  # pixels of a side; no camera of ours films larger videos
_LONGEST = 20_000  # pictures of a video that are looked at

type Keyframe = tuple[str, float]  # what happens, and when
type Pictures = list[tuple[Keyframe, np.ndarray]]


@dataclass(frozen=True)
class FilmedTrial:
    """A trial with its video. `place` is that of the run or group that made it, `label` its name."""

    place: int
    label: str
    trial: Trial
    file: Path


def of_one_layout[T: FilmedTrial](films: Iterable[T]) -> list[T]:
    """The first film of every run or group at the layout at which most of them were filmed."""
    by_layout: dict[tuple[str, str, int | None], dict[int, T]] = {}
    for film in films:
        trial = film.trial
        by_layout.setdefault((trial.source, trial.level, trial.seed), {}).setdefault(film.place, film)
    counts = Counter({layout: len(found) for layout, found in by_layout.items()})
    return list(by_layout[counts.most_common(1)[0][0]].values()) if counts else []


def keyframes(trial: Trial) -> list[Keyframe]:
    """The start, the milestones in the order of their times, and the end if nothing was reached there."""
    reached = sorted(((time, name.replace("_", " ")) for name, time in trial.times.items()))
    frames = [("start", 0.0), *((name, time) for time, name in reached)]
    if trial.seconds > frames[-1][1] + 0.5:
        frames.append(("end", trial.seconds))
    if len(frames) > _MOST:
        frames = [frames[round(n * (len(frames) - 1) / (_MOST - 1))] for n in range(_MOST)]
    return frames


def keyframe_pictures(file: Path, trial: Trial) -> Pictures:
    """The keyframes of a trial with the pictures of its video; empty if the file is not a video that can be read."""
    import av

    frames, found = keyframes(trial), list[tuple[Keyframe, np.ndarray]]()
    picture = None
    try:
        with av.open(str(file)) as container:
            stream = container.streams.video[0]
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
    except (av.FFmpegError, IndexError, OSError, ValueError):
        return []
    return found


def strip_pictures(trial: Trial, pictures: Pictures) -> Pictures:
    """Pictures of a video as a strip shows them: small, without the rubric beside them."""
    film = is_evaluation_video(trial.video)
    return [(frame, _small(without_rubric(picture) if film else picture)) for frame, picture in pictures]


def _small(picture: np.ndarray) -> np.ndarray:
    """A smaller picture; two views side by side come one above the other, since strips are long enough."""
    height, width, _ = picture.shape
    if width >= 2 * height:
        picture = np.vstack(np.hsplit(picture[:, : width // 2 * 2], 2))
    return scaled(picture, _WIDTH)


def scaled(picture: np.ndarray, width: int) -> np.ndarray:
    """A picture of another width."""
    image = Image.fromarray(picture)
    height = max(1, round(image.height * width / image.width))
    return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))


def draw_strip(shown: Sequence[tuple[FilmedTrial, Pictures]]) -> Canvas:
    """The strips of several attempts, one above the other."""
    across = max(len(pictures) for _, pictures in shown)
    tall = max(picture.shape[0] / picture.shape[1] for _, pictures in shown for _, picture in pictures)
    canvas = Canvas(figsize=(1.02 * across, len(shown) * (tall + 0.55)), layout="constrained")
    grid = canvas.subplots(len(shown), across, squeeze=False)
    for line, (film, pictures) in zip(grid, shown, strict=True):
        for axes in line[len(pictures) :]:
            axes.remove()
        for axes, (frame, picture) in zip(line, pictures, strict=False):
            _show(axes, frame, picture)
        score = "" if film.trial.score is None else f": {film.trial.score:.0f}"
        title = wrapped(f"{film.label}{score}", 16 * across)
        line[0].set_title(title, loc="left", fontsize=8, fontweight="bold")
    return canvas


def _show(axes: Axes, frame: Keyframe, picture: np.ndarray) -> None:
    axes.imshow(picture, interpolation="none")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    name, time = frame
    axes.set_xlabel(f"{wrapped(name, 16)}\n{time:.1f} s", fontsize=7)
