"""Opens videos of unknown origin. Opening one decodes a picture, so FFmpeg is told first how large it may be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot import header

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


@contextmanager
def open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """A video file and its first stream of pictures. Exceptions of PyAV are passed on."""
    import av

    # Codecs round sides up, so twice the limit: this saves memory, and the check below decides.
    with av.open(str(path), options={"max_pixels": str(2 * header.LARGEST_PICTURE)}) as container:
        stream = container.streams.video[0]
        if not stream.height or not stream.width:
            raise HoldfastError(f"{path} does not say how large its pictures are, or they are too large.")
        header.check_picture(stream.height, stream.width, path)
        yield container, stream
