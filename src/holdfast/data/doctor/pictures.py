"""Checks of the camera recordings: videos that lost frames, and images that show nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.data.doctor.findings import Expected, Finding, Severity, say_delete, say_episodes
from holdfast.data.lerobot.open_video import open_video
from holdfast.data.lerobot.source import Camera, Source, camera_name

FAULTS: dict[str, tuple[Severity, str, str]] = {
    "unreadable": (
        "error",
        "Images of these episodes cannot be decoded.",
        "Restore the file from a backup, or delete its episodes; training would stop at the first of them.",
    ),
    "uniform-camera": (
        "error",
        "All sampled images are black or of one colour.",
        "Was the lens covered or the camera unplugged? Record again, or remove the camera from every task's dataset.",
    ),
    "constant-camera": (
        "warning",
        "The images do not change from the beginning of the episode to its end.",
        "Look at the video: a frozen camera teaches nothing. This is fine only if nothing in its view moves.",
    ),
    "camera-size": (
        "error",
        "The images have another size than meta/info.json says.",
        "Correct the camera's shape in meta/info.json, or encode the video again.",
    ),
}
_RESTS = 0.01  # rad or m


def lost_frames(source: Source, expected: Expected) -> Iterator[Finding]:
    """Compare the number of video frames with the rows of the tables.

    An encoder that drops a frame while recording only logs a warning, and all later images are shifted.
    """
    source = source.raw
    for camera in source.cameras:
        if camera.kind == "video":
            wrong = _wrong_episodes(source, camera)
            if wrong:
                detail = "The video of these episodes does not have as many frames as the table has rows: "
                detail += ", ".join(f"{shown} for {rows}" for shown, rows in list(wrong.values())[:5]) + "."
                advice = f"Images and actions are out of step. {say_delete(source, wrong)}"
                where = f"{camera.key}, {say_episodes(wrong)}"
                yield Finding("error", source.dataset, "video-frames", where, detail, advice)
            for path, episodes in source.videos(camera).items():
                yield from wrong_index(source, camera, path, episodes)


def _wrong_episodes(source: Source, camera: Camera) -> dict[int, tuple[int, int]]:
    begin, end = (np.array(source.episodes[f"videos/{camera.key}/{edge}_timestamp"]) for edge in ("from", "to"))
    shown = np.rint((end - begin) * source.fps).astype(int)
    rows = source.lengths
    return {e: (int(shown[e]), rows[e]) for e in range(len(rows)) if shown[e] != rows[e]}


def wrong_index(source: Source, camera: Camera, path: Path, episodes: list[int]) -> Iterator[Finding]:
    """Compare the index of a video file with what its episodes need."""
    seconds = max(source.episodes[f"videos/{camera.key}/to_timestamp"][episode] for episode in episodes)
    where = f"{camera.key}, {path.relative_to(source.root)}"
    try:
        frames, rate = _count(path)
    except av.FFmpegError as error:
        yield Finding("error", source.dataset, "unreadable", where, f"Not a video: {error}.", FAULTS["unreadable"][2])
        return
    except HoldfastError as error:
        yield Finding("error", source.dataset, "unreadable", where, str(error), FAULTS["unreadable"][2])
        return
    if frames != round(seconds * source.fps):
        detail = f"The file holds {frames} frames, its episodes need {round(seconds * source.fps)}."
        advice = "Images and actions are out of step. Fetch the file again, or record its episodes again."
        yield Finding("error", source.dataset, "video-frames", where, detail, advice)
    if frames > 1 and abs(rate / source.fps - 1) > 0.01:
        detail = f"The video runs at {rate:.4g} frames per second, info.json says {source.fps:g}."
        advice = "Correct fps in meta/info.json if that is wrong; else encode the video again, frame by frame."
        yield Finding("error", source.dataset, "wrong-fps", where, detail, advice)


def _count(path: Path) -> tuple[int, float]:
    """Frames and frames per second of a video, from its index where it has one."""
    with open_video(path) as (container, stream):
        frames = stream.frames or sum(packet.size > 0 for packet in container.demux(stream))
        rate = float(stream.average_rate or 0)
    return frames, rate


def blind_cameras(source: Source, expected: Expected) -> Iterator[Finding]:
    """Check a few images of every camera, in the first, middle and last episode only, to stay quick."""
    source = source.raw
    count = len(source.starts)
    for camera in source.cameras:
        faults: dict[str, list[int]] = {}
        for episode in sorted({0, count // 2, count - 1}):
            fault = _find_fault(source, camera, episode)
            if fault and not (fault == "constant-camera" and _on_resting_arm(source, camera, episode)):
                faults.setdefault(fault, []).append(episode)
        for fault, episodes in faults.items():
            severity, detail, advice = FAULTS[fault]
            yield Finding(severity, source.dataset, fault, f"{camera.key}, {say_episodes(episodes)}", detail, advice)


def _on_resting_arm(source: Source, camera: Camera, episode: int) -> bool:
    """Whether a camera is named after an arm that rests (right_wrist, right_joint_1), so that it may see no motion."""
    words = set(camera_name(camera.key).split("_"))
    own = [i for i, name in enumerate(source.state_names) if words & set(name.split("_"))]
    states = source.state[source.starts[episode] : source.ends[episode], own]
    return bool(own) and float(np.ptp(states, axis=0).max()) < _RESTS


def _find_fault(source: Source, camera: Camera, episode: int) -> str | None:
    frames = np.unique(np.linspace(source.starts[episode], source.ends[episode] - 1, 5).round().astype(int))
    try:
        images = source.images(camera, frames).numpy()
    except HoldfastError:
        return "unreadable"
    if images.shape[2:] != (camera.height, camera.width):
        return "camera-size"
    if images.std(axis=(2, 3)).max() < 2:
        return "uniform-camera"
    # A lossy codec changes a few pixels of a still image; sensor noise alone is well above this threshold.
    change = np.abs(images[1:].astype(np.int16) - images[0]).mean() if len(frames) > 1 else np.inf
    return "constant-camera" if change < 0.02 else None
