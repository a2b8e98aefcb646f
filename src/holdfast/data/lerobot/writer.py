"""Writes LeRobot v3 datasets; all recording settings are here."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data.lerobot.source import ACTION, IMAGES, STATE

WRITER_MODULE = "lerobot.datasets.lerobot_dataset"  # slow to import; processes that write datasets are forked with it


@contextlib.contextmanager
def dataset_writer(
    root: Path,
    *,
    fps: int,
    names: Sequence[str],
    cameras: Sequence[str],
    height: int,
    width: int,
    robot: str,
    full_colour: bool = False,
    inline: bool = False,
    state_names: Sequence[str] | None = None,
) -> Iterator[Any]:
    """Open a new dataset for `add_frame` and `save_episode`; it is finalized on exit, without which it cannot be read.

    `names` are those of the action, and of the state unless `state_names` is given. With `full_colour` chroma is not
    subsampled: in small images of colourful things that is worth 6 dB at any bit rate. Not every browser plays such
    videos; LeRobot reads them. With `inline` frames are encoded by the thread that adds them: less work, but it waits.
    """
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    _quiet()
    numbers = {STATE: _numbers(state_names or names), ACTION: _numbers(names)}
    pixels = {"dtype": "video", "shape": (height, width, 3), "names": ["height", "width", "channels"]}
    dataset = LeRobotDataset.create(
        f"local/{root.name}",
        fps=fps,
        root=root,
        robot_type=robot,
        features=numbers | {IMAGES + c: dict(pixels) for c in cameras},
        # Encoding while recording is five times as fast as writing images first. A full queue drops frames
        # with only a warning, so it is longer than any episode.
        streaming_encoding=True,
        encoder_queue_maxsize=10_000,
        rgb_encoder=_codec(full_colour),
    )
    if inline:
        from holdfast.data.lerobot.inline_encoder import InlineEncoder

        dataset.writer._streaming_encoder = InlineEncoder(fps, dataset.writer._rgb_encoder)
    try:
        yield dataset
    finally:
        dataset.finalize()


def _codec(full_colour: bool) -> Any:
    """LeRobot's config of the codec. It is explicit: `auto` guesses one."""
    from lerobot.configs.video import RGBEncoderConfig

    if not full_colour:
        return RGBEncoderConfig(vcodec="libsvtav1")
    # With B-frames or mbtree x264 reads uninitialized memory: the same images would not give the same bits.
    options = {"x264-params": "bframes=0:mbtree=0"}
    return RGBEncoderConfig(vcodec="h264", pix_fmt="yuv444p", crf=18, preset="veryfast", extra_options=options)


def _numbers(names: Sequence[str]) -> dict[str, Any]:
    return {"dtype": "float32", "shape": (len(names),), "names": list(names)}


@cache
def _quiet() -> None:
    """Silence the libraries, and skip work that is not needed."""
    import av
    import datasets
    from lerobot.datasets import compute_stats, dataset_writer

    os.environ.setdefault("SVT_LOG", "1")  # errors only
    av.logging.set_level(av.logging.PANIC)
    # LeRobot turns FFmpeg's own log back on after every file it closes.
    av.logging.restore_default_callback = lambda: None
    datasets.disable_progress_bars()
    # For images below 300 px LeRobot sorts every pixel of every frame for statistics that no policy here reads, which
    # takes half of the recording time. Every eighth row and column of every eighth frame is enough.
    compute_stats.auto_downsample_height_width = lambda image: image[:, ::8, ::8]

    class EveryEighth(compute_stats.RunningQuantileStats):
        def update(self, values: np.ndarray) -> None:
            self.calls = getattr(self, "calls", -1) + 1
            if self.calls % 8 == 0:
                super().update(values)

    compute_stats.RunningQuantileStats = EveryEighth
    # To embed images, LeRobot copies every row of an episode on its own; a table without images comes out the same.
    embed = dataset_writer.embed_images
    dataset_writer.embed_images = lambda rows: embed(rows) if _has_images(rows) else rows


def _has_images(rows: Any) -> bool:
    import datasets

    return any(isinstance(feature, datasets.Image) for feature in rows.features.values())


def frame(task: str, state: np.ndarray, action: np.ndarray, images: dict[str, np.ndarray]) -> dict[str, Any]:
    """One frame in LeRobot's format; images are (height, width, 3) uint8 by camera name."""
    pixels = {IMAGES + name: image for name, image in images.items()}
    return {"task": task, STATE: state.astype(np.float32), ACTION: action.astype(np.float32), **pixels}


def add_patiently(dataset: Any, sample: dict[str, Any], backlog: int = 60) -> None:
    """Add a frame once the encoders have caught up.

    Frames that come faster than they can be encoded would fill the memory, and at an episode's end LeRobot waits two
    minutes for its encoders, then truncates the video.
    """
    encoder = dataset.writer._streaming_encoder
    # A dead encoder never catches up; add_frame then raises its error.
    while any(q.qsize() > backlog and encoder._threads[key].is_alive() for key, q in encoder._frame_queues.items()):
        time.sleep(0.002)
    dataset.add_frame(sample)


def merge_datasets(parts: Sequence[Path], root: Path) -> None:
    """Join datasets with the same features into a new one, in order.

    Videos are copied, not concatenated: LeRobot would rewrite the whole file for each video it adds.
    """
    import datasets
    from lerobot.datasets.aggregate import aggregate_datasets

    _quiet()
    names = [f"local/{part.name}" for part in parts]
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that cannot be switched off
        aggregate_datasets(names, f"local/{root.name}", roots=list(parts), aggr_root=root, concatenate_videos=False)
    datasets.disable_progress_bars()  # LeRobot has switched them on again
