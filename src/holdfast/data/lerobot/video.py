"""Decodes stored images, and frames of a video by number, with torchcodec if it is installed, else with PyAV.

How large a picture is stands in its header, and is checked before memory is taken for it.

LeRobot's own decoder gives the same pixels, but importing it takes a quarter of a minute, and a decoder used before a
fork does not survive it. Here every call opens the file itself, so any thread of any process may call. Importing
torchcodec takes seconds too: import this module late, or before a fork.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch

from holdfast.data.lerobot.header import check_picture
from holdfast.data.lerobot.open_video import open_video

try:
    from torchcodec.decoders import VideoDecoder
except (ImportError, RuntimeError, OSError):  # not installed, or FFmpeg's libraries are missing
    HAS_TORCHCODEC = False
else:
    HAS_TORCHCODEC = True

_IMAGES = ("PNG", "JPEG", "WEBP", "GIF")  # what torchvision decodes


def decode(path: Path, numbers: Sequence[int], fps: float) -> torch.Tensor:
    """Decode frames into uint8 (n, 3, height, width). Exceptions of the libraries are passed on."""
    found, times = (_with_torchcodec if HAS_TORCHCODEC else _with_pyav)(path, numbers, fps)
    late = [n for n, t in zip(numbers, times, strict=True) if abs(t - n / fps) > 0.5 / fps]
    if late:
        raise ValueError(f"frame {late[0]} is not where {fps:g} frames per second put it")
    return found


def decode_image(content: bytes, what: str) -> torch.Tensor:
    """Decode an image file into uint8 (3, height, width); `what` says whose it is."""
    from PIL import Image
    from torchvision.io import ImageReadMode
    from torchvision.io import decode_image as read

    with Image.open(io.BytesIO(content), formats=_IMAGES) as header:
        check_picture(header.height, header.width, what)
    return cast("torch.Tensor", read(torch.frombuffer(bytearray(content), dtype=torch.uint8), ImageReadMode.RGB))


def _with_torchcodec(path: Path, numbers: Sequence[int], fps: float) -> tuple[torch.Tensor, list[float]]:
    with open_video(path):  # refuses huge pictures; torchcodec would decode one
        pass
    decoder = VideoDecoder(str(path), seek_mode="approximate")
    batch = decoder.get_frames_at(indices=list(numbers))
    return cast("torch.Tensor", batch.data), batch.pts_seconds.tolist()


def _with_pyav(path: Path, numbers: Sequence[int], fps: float) -> tuple[torch.Tensor, list[float]]:
    from av.video.reformatter import VideoReformatter

    colours = VideoReformatter()  # shared, or each frame would create its own
    found: dict[int, tuple[torch.Tensor, float]] = {}
    wanted, last = set(numbers), max(numbers)
    with open_video(path) as (container, stream):
        assert stream.time_base is not None
        stream.thread_count = 1  # callers already decode videos in parallel
        # PyAV seeks to key frames only: start at the last one before, and decode from there.
        container.seek(round(min(numbers) / fps / stream.time_base) - 1, backward=True, stream=stream)
        for picture in container.decode(stream):
            if picture.pts is None:
                continue
            seconds = float(picture.pts * stream.time_base)
            number = round(seconds * fps)
            if number in wanted:
                pixels = colours.reformat(picture, format="rgb24").to_ndarray()
                found[number] = torch.from_numpy(pixels).permute(2, 0, 1), seconds
            if number >= last:
                break
    if missing := sorted(wanted - found.keys()):
        raise ValueError(f"frame {missing[0]} is not there")
    return torch.stack([found[n][0] for n in numbers]), [found[n][1] for n in numbers]
