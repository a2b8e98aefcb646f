"""Checks that read a dataset to its last byte: every image is decoded, and every file compared with what it first was.

Decoders are told to stop at an error instead of hiding it. Even so, altered bytes often decode to a wrong image without
an error; only the hash that was remembered when the file was first seen can tell.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

import av
import numpy as np

from holdfast.data.doctor.findings import Expected, Finding, say_delete, say_episodes
from holdfast.data.doctor.pictures import wrong_index
from holdfast.data.lerobot.fingerprint import hash_files, record_file
from holdfast.data.lerobot.open_video import open_video
from holdfast.data.lerobot.source import Camera, Source

# Options of FFmpeg's decoders. `strict` makes dav1d check that a frame's data end where they should.
_PLAIN = {"err_detect": "crccheck+bitstream+buffer+explode"}
_STRICT = _PLAIN | {"strict": "strict"}

type Job = Callable[[Callable[[], None]], list[Damage]]  # given what to call after every image
type Advance = Callable[[int, int], None]  # called with how many more images were decoded, and how many there are


@dataclass(frozen=True)
class Damage:
    """An image that cannot be decoded as it should, by its frame in the dataset."""

    frame: int
    what: str


def altered_files(source: Source, expected: Expected) -> Iterator[Finding]:
    """Hash every file anew, and report other bytes in files that have their old sizes.

    JSON is left out: people do edit it, and 30 becomes 25 without a change of size.
    """
    source = source.raw
    for name, file in hash_files(source.root, source.files, anew=True).items():
        if file.altered and not name.endswith(".json"):
            detail = f"It has other bytes than when it was first seen on {file.seen}, and the same size."
            advice = (
                "Editing would change its size, so this is damage: restore the file from a backup. If you did edit it, "
            )
            advice += f"let Holdfast forget what it was: rm {record_file(source.root)}"
            yield Finding("error", source.dataset, "altered-file", name, detail, advice)


def damaged_images(source: Source, expected: Expected, advance: Advance) -> Iterator[Finding]:
    """Decode every image of every camera, files side by side, and report where the decoder fails."""
    source = source.raw
    jobs: list[tuple[Camera, str, Job]] = []
    for camera in source.cameras:
        if camera.kind != "video":
            jobs.append((camera, "tables", partial(_decode_stored, source, camera)))
            continue
        for path, episodes in source.videos(camera).items():
            if not any(wrong_index(source, camera, path, episodes)):  # which is reported already
                name = os.path.relpath(path, source.root)
                jobs.append((camera, name, partial(_decode_video, source, camera, path, episodes)))
    total, stopped = len(source.state) * len(source.cameras), Event()

    def advance_one() -> None:
        if stopped.is_set():
            raise InterruptedError  # Ctrl-C does not wait for long videos
        advance(1, total)

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        results = [pool.submit(job, advance_one) for _, _, job in jobs]
        for (camera, name, _), result in zip(jobs, results, strict=True):
            if found := result.result():
                yield _report(source, f"{camera.key}, {name}", found)
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def _report(source: Source, where: str, found: list[Damage]) -> Finding:
    frames = np.array([damage.frame for damage in found])
    episodes = source.episode_of(frames)
    number = frames[0] - source.starts[episodes[0]]
    detail = f"Episode {episodes[0]}, {number / source.fps:.2f} s (frame {number}): {found[0].what}. "
    detail += f"Damaged images in all: {len(found)}."
    advice = f"Restore the file from a backup, or do without the episodes. {say_delete(source, set(episodes))}"
    place = f"{where}, {say_episodes(set(episodes))}"
    return Finding("error", source.dataset, "damaged-images", place, detail, advice)


def _decode_video(
    source: Source, camera: Camera, path: Path, episodes: list[int], advance: Callable[[], None]
) -> list[Damage]:
    """Decode a file frame by frame, and compare its frames with the rows of its episodes."""
    begins = source.episodes[f"videos/{camera.key}/from_timestamp"]
    rows = {  # frame of the file -> frame of the dataset
        round(begins[episode] * source.fps) + i: int(source.starts[episode]) + i
        for episode in episodes
        for i in range(source.lengths[episode])
    }
    shown: Counter[int] = Counter()
    wrong: dict[int, str] = {}
    for seconds, error in decode(path):
        number = round(seconds * source.fps)
        if error:
            wrong.setdefault(number, error)
        else:
            shown[number] += 1
        advance()
    for number in rows:
        if shown[number] != 1:
            wrong.setdefault(number, f"there are {shown[number]} images of this moment")
    return [Damage(rows[number], what) for number, what in sorted(wrong.items()) if number in rows]


def decode(path: Path) -> Iterator[tuple[float, str]]:
    """The time of every frame of a video, with the decoder's error, if any."""
    # If not one frame passes, the file is not damaged but by an encoder that does not keep to the standard's letter.
    strictly = any(not error for _, error in _decode(path, _STRICT))
    yield from _decode(path, _STRICT if strictly else _PLAIN)


def _decode(path: Path, options: dict[str, str]) -> Iterator[tuple[float, str]]:
    seconds = 0.0
    with open_video(path) as (container, stream):
        stream.thread_count = 1  # files are decoded side by side
        stream.codec_context.options = options
        tick = float(stream.time_base or 0)
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets)
                seconds = packet.pts * tick if packet.pts is not None else seconds
                for picture in stream.decode(packet):
                    guessed = "the decoder had to guess" if picture.is_corrupt else ""
                    yield picture.pts * tick if picture.pts is not None else seconds, guessed
            except StopIteration:
                return
            except av.FFmpegError as error:
                yield seconds, str(error.strerror)


def _decode_stored(source: Source, camera: Camera, advance: Callable[[], None]) -> list[Damage]:
    """Decode images that are stored in the tables."""
    found = []
    for frame in range(len(source.state)):
        try:
            source.images(camera, np.array([frame]))
        except Exception as error:  # the decoder can raise anything
            found.append(Damage(frame, " ".join(str(error).split())))
        advance()
    return found
