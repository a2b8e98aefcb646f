"""Encodes videos in the caller's thread, in place of LeRobot's threads.

A simulator has no clock that drives it, so nothing is gained by encoding beside it: every frame would only pass
through a queue, and the threads of all cameras would compete for the interpreter. The files have the same bits.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from lerobot.datasets import compute_stats


class InlineEncoder:
    """What a LeRobot dataset calls as its streaming encoder."""

    def __init__(self, fps: int, config: Any) -> None:
        """Set the frame rate and LeRobot's config of the codec."""
        self._fps, self._config = fps, config
        self._videos: dict[str, _Video] = {}
        self._frame_queues: dict[str, Any] = {}  # nothing is ever queued

    def start_episode(self, video_keys: Sequence[str], temp_dir: Path, depth_video_keys: Sequence[str] = ()) -> None:
        """Open a file for every camera."""
        self.cancel_episode()
        assert not depth_video_keys
        for key in video_keys:
            folder = Path(tempfile.mkdtemp(dir=temp_dir))
            self._videos[key] = _Video(folder / f"{key}_streaming.mp4", self._fps, self._config)

    def feed_frame(self, video_key: str, image: np.ndarray) -> None:
        """Encode an image, (height, width, 3) uint8."""
        self._videos[video_key].add(image)

    def finish_episode(self) -> dict[str, tuple[Path, dict[str, np.ndarray] | None]]:
        """Close the files, and return each with the statistics of its images."""
        done = {key: (video.path, video.finish()) for key, video in self._videos.items()}
        self._videos.clear()
        return done

    def cancel_episode(self) -> None:
        """Give up the files of an episode that is not finished."""
        for video in self._videos.values():
            video.close()
            shutil.rmtree(video.path.parent, ignore_errors=True)
        self._videos.clear()

    def close(self) -> None:
        """Give up what is open."""
        self.cancel_episode()


class _Video:
    def __init__(self, path: Path, fps: int, config: Any) -> None:
        self.path, self._tick, self._count = path, Fraction(1, fps), 0
        self._container = av.open(str(path), "w")
        options = config.get_codec_options(None, as_strings=True)
        self._stream: Any = self._container.add_stream(config.vcodec, fps, options=options)
        self._stream.pix_fmt, self._stream.time_base = config.pix_fmt, self._tick
        self._stats = compute_stats.RunningQuantileStats()

    def add(self, image: np.ndarray) -> None:
        if not self._count:
            self._stream.height, self._stream.width = image.shape[:2]
        picture = av.VideoFrame.from_ndarray(image, format="rgb24")
        picture.pts, picture.time_base = self._count, self._tick
        self._container.mux(self._stream.encode(picture))
        small = compute_stats.auto_downsample_height_width(image.transpose(2, 0, 1))
        self._stats.update(small.transpose(1, 2, 0).reshape(-1, len(small)))
        self._count += 1

    def finish(self) -> dict[str, np.ndarray] | None:
        self._container.mux(self._stream.encode())
        self.close()
        found: dict[str, np.ndarray] | None = self._stats.get_statistics() if self._count > 1 else None
        return found

    def close(self) -> None:
        self._container.close()
