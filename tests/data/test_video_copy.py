"""Episodes cut out of videos: the packets' pixels, wherever the key frames lie."""

import av
import numpy as np
import pytest

from holdfast.data.lerobot.video import decode
from holdfast.data.lerobot.video_copy import copy_packets, encode_exactly

LENGTH, SIZE = 60, 48


@pytest.fixture(scope="module")
def pictures():
    noise = np.random.default_rng(0).integers(0, 255, (SIZE, SIZE + 2, 3)).astype(np.uint8)
    return np.stack([np.roll(noise, 3 * i, axis=1) for i in range(LENGTH)])


def encode(path, pictures, codec, options, rate=30):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width = pictures.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


@pytest.mark.parametrize(
    ("codec", "options", "rate"),
    [
        ("libsvtav1", {"g": "2"}, 30),  # LeRobot's default
        ("libx264", {"g": "2"}, 30),
        ("libx264", {"g": "12", "bf": "3"}, 50),  # pictures that are decoded in another order than shown
        ("libx264", {}, 15),  # one key frame in all
    ],
    ids=["av1", "h264", "h264-b-frames", "h264-one-key-frame"],
)
def test_cut_frames_have_the_pixels_of_the_whole_video(tmp_path, pictures, codec, options, rate):
    encode(tmp_path / "whole.mp4", pictures, codec, options, rate)
    for first, count in ((0, 20), (17, 9), (24, 1), (LENGTH - 13, 13)):
        cut = tmp_path / f"cut-{first}.mp4"
        begin = copy_packets(tmp_path / "whole.mp4", cut, first / rate, count, rate)
        wanted = decode(tmp_path / "whole.mp4", range(first, first + count), rate)
        assert np.array_equal(decode(cut, range(round(begin * rate), round(begin * rate) + count), rate), wanted)


def test_from_key_frame_to_key_frame_nothing_is_copied_in_vain(tmp_path, pictures):
    encode(tmp_path / "whole.mp4", pictures, "libx264", {"g": "2"})
    assert copy_packets(tmp_path / "whole.mp4", tmp_path / "cut.mp4", 20 / 30, 10, 30) == 0
    with av.open(str(tmp_path / "cut.mp4")) as container:
        assert container.streams.video[0].frames == 10


def test_what_is_encoded_exactly_is_read_back_exactly(tmp_path, pictures):
    encode_exactly(tmp_path / "exact.mp4", pictures, 30)
    read = decode(tmp_path / "exact.mp4", range(LENGTH), 30)
    assert np.array_equal(read.permute(0, 2, 3, 1), pictures)
