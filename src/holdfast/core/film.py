"""Writes pictures to an MP4 file that every browser plays."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

_LINGER = 1.0  # seconds the last picture is held


class Film:
    """A video being written; the file gets its name when it is complete."""

    def __init__(self, path: Path, rate: int, quality: int = 20) -> None:
        """Start a video.

        Args:
            path: File to write.
            rate: Pictures per second.
            quality: H.264 constant rate factor: 18 looks like the original, 30 is a third of the size.
        """
        import av

        self._path, self._rate = path, rate
        self._writing = path.with_name(f".{path.name}")
        self._writing.unlink(missing_ok=True)  # what a killed process left, or a link, which would be written through
        self._container = av.open(str(self._writing), "w", format="mp4", options={"movflags": "+faststart"})
        self._stream: Any = self._container.add_stream("libx264", rate=rate, options={"crf": str(quality)})
        self._stream.pix_fmt = "yuv420p"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def discard(self) -> None:
        """Stop without a file."""
        with suppress(Exception):  # without a picture there is nothing to close; the first error is the one to show
            self._container.close()
        self._writing.unlink(missing_ok=True)

    def add(self, picture: np.ndarray) -> None:
        """Append a picture (height, width, 3). All must have the same size, with even sides."""
        import av

        self._stream.height, self._stream.width = picture.shape[:2]
        self._last = av.VideoFrame.from_ndarray(picture)
        self._container.mux(self._stream.encode(self._last))

    def close(self) -> None:
        """Hold the last picture for a while and finish the file."""
        import av

        last = self._last.to_ndarray(format="rgb24")
        for _ in range(int(_LINGER * self._rate)):
            self._container.mux(self._stream.encode(av.VideoFrame.from_ndarray(last)))
        self._container.mux(self._stream.encode())
        self._container.close()
        self._writing.rename(self._path)
