"""Copies one episode out of a video without loss: its packets are copied, not re-encoded."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.stream import VideoStream

from holdfast.data.lerobot.open_video import open_video


def copy_packets(source: Path, target: Path, begin: float, frames: int, fps: float) -> float:
    """Copy the packets that show `frames` frames from second `begin` on; return where they begin in the new file.

    A frame can only be decoded from the key frame before it, so the copy starts there. LeRobot encodes episodes one
    by one, so each begins with a key frame; only files cut by other tools need a few extra frames.
    """
    with open_video(source) as (old, stream), av.open(str(target), "w", format="mp4") as new:
        tick = Fraction(stream.time_base or 1)
        frame = 1 / (Fraction(fps).limit_denominator(1001) * tick)
        first = round(Fraction(begin) / tick)
        end = first + frame * frames - frame / 2  # frames from here on are not needed
        old.seek(int(first + frame / 4), stream=stream)  # to the last key frame at or before the first frame
        packets: list[tuple[int, int, av.Packet]] = []
        for packet in old.demux(stream):
            # No frame is shown before it is decoded; the last packet of a stream is empty and has no times.
            if packet.dts is None or packet.pts is None or packet.dts >= end:
                break
            packets.append((packet.pts, packet.dts, packet))
        origin = packets[0][0]
        while packets[-1][0] >= end:
            packets.pop()
        out = new.add_stream_from_template(stream, opaque=True)
        out.time_base = tick
        for shown, decoded, packet in packets:
            if shown >= origin:  # frames shown before the key frame cannot be decoded from it
                packet.pts, packet.dts, packet.stream = shown - origin, decoded - origin, out
                new.mux(packet)
    return float((first - origin) * tick)


def encode_exactly(target: Path, images: Iterable[np.ndarray], fps: float) -> None:
    """Encode images (height, width, 3) uint8 without loss, as H.264 in RGB. Large, but exact."""
    with av.open(str(target), "w", format="mp4") as new:
        rate = Fraction(fps).limit_denominator(1001)
        options = {"qp": "0", "g": "2", "preset": "veryfast"}
        stream = cast(VideoStream, new.add_stream("libx264rgb", rate=rate, options=options))
        stream.pix_fmt = "rgb24"
        for number, image in enumerate(images):
            if number == 0:
                stream.height, stream.width = image.shape[:2]
            new.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        new.mux(stream.encode())
