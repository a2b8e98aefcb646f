"""Opens videos of unknown origin. Opening one decodes a picture, so FFmpeg is told first how large it may be.

It is also told which formats to expect: some, like lists of files, would lead it to other files.
"""

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

_OPTIONS = {
    "format_whitelist": "mov,matroska",
    "protocol_whitelist": "file",
    # Codecs round sides up, so twice the limit: this saves memory, and the check below decides.
    "max_pixels": str(2 * header.LARGEST_PICTURE),
}


@contextmanager
def open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """A video file and its first stream of pictures. FFmpeg's own errors are passed on."""
    import av

    try:
        container = av.open(str(path), options=_OPTIONS)
    except UnicodeDecodeError as error:  # a text inside the file, like a name of a track
        raise HoldfastError(f"{path} cannot be decoded: it holds text that is not UTF-8 ({error.reason}).") from None
    with container:
        if not container.streams.video:
            raise HoldfastError(f"{path} cannot be decoded: it holds no pictures.")
        stream = container.streams.video[0]
        if stream.codec_context is None:
            raise HoldfastError(f"{path} cannot be decoded: there is no decoder for its codec.")
        if not stream.height or not stream.width:
            raise HoldfastError(f"{path} does not say how large its pictures are, or they are too large.")
        header.check_picture(stream.height, stream.width, path)
        yield container, stream
