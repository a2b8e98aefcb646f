import shutil

import av
import pytest
import torch

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot import video
from holdfast.data.lerobot.open_video import open_video
from holdfast.data.lerobot.source import IMAGES, open_source


@pytest.fixture(params=["torchcodec", "pyav"])
def decoder(request, monkeypatch):
    monkeypatch.setattr(video, "HAS_TORCHCODEC", request.param == "torchcodec")
    return request.param


@pytest.fixture(scope="module")
def path(recorded):
    return next((recorded / "reach" / "videos" / f"{IMAGES}head").rglob("*.mp4"))


def test_frames_come_in_the_order_asked_for(path, decoder):
    every = video.decode(path, range(84), 30)
    assert every.shape == (84, 3, 32, 32)
    assert every.dtype == torch.uint8
    for numbers in ([83], [5, 6, 7], [40, 3, 41, 3]):
        assert torch.equal(video.decode(path, numbers, 30), every[numbers])


def test_both_decoders_give_nearly_the_same_pixels(path, monkeypatch):
    pictures = []
    for has in (True, False):
        monkeypatch.setattr(video, "HAS_TORCHCODEC", has)
        pictures.append(video.decode(path, range(84), 30).int())
    assert (pictures[0] - pictures[1]).abs().max() <= 3
    assert len({int(p.sum()) for p in pictures[0]}) > 40  # frames differ, so a shifted one would be seen


def test_a_frame_that_is_not_there_is_an_error(path, decoder):
    with pytest.raises(Exception, match=r"84|[Ii]nvalid|not there"):
        video.decode(path, [84], 30)


def test_a_frame_of_another_moment_is_not_taken_for_the_one_asked_for(path):
    with pytest.raises(ValueError, match="frame 40 is not where 25 frames per second put it"):
        video.decode(path, [40], 25)


def test_a_source_says_which_file_is_broken(toy):
    source = open_source(str(toy / "reach"))
    file = source.video_path(source.cameras[0], 0)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(Exception, match=r"file-000.mp4 cannot be decoded"):
        source.images(source.cameras[0], source.frames_of([0]))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"av01", b"\0\0\0\0", "no decoder"),
        (b"trak", b"free", "holds no pictures"),
        (b"VideoHandler", b"\xff" * 12, "not UTF-8"),
    ],
)
def test_a_damaged_header_is_one_line(path, tmp_path, old, new, says):
    assert old in path.read_bytes()
    (tmp_path / "damaged.mp4").write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(HoldfastError, match=says), open_video(tmp_path / "damaged.mp4"):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile secret.mp4\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsecret.mp4\n#EXT-X-ENDLIST\n",
    ],
)
def test_a_list_of_other_files_is_no_video(path, tmp_path, text):
    shutil.copy(path, tmp_path / "secret.mp4")
    (tmp_path / "video.mp4").write_text(text)
    with pytest.raises(av.FFmpegError), open_video(tmp_path / "video.mp4"):
        pass
