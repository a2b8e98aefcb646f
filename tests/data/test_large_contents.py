"""A small file of a dataset cannot fill the memory: sizes are read from its header or footer first."""

import json
import os
import struct
import subprocess
import sys
import zlib

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toys import write_numbers

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Mapping
from holdfast.data.doctor.whole import decode as decode_all
from holdfast.data.lerobot import header, tables, video
from holdfast.data.lerobot.folder import read_words
from holdfast.data.lerobot.source import open_source
from holdfast.data.mapping import apply

NAMES = ("a.pos", "b.pos")
IMAGE = "observation.image"


@pytest.fixture
def unread(monkeypatch):
    """Reading a table fails the test."""
    monkeypatch.setattr(tables.pq, "read_table", lambda *args, **more: pytest.fail("read"))


def only(folder, pattern):
    (file,) = folder.rglob(pattern)
    return file


def repeated(table, count):
    """A table with the first row of another, many times."""
    values = {name: table[name][:1].combine_chunks() for name in table.column_names}
    return pa.table({name: pa.chunked_array([pa.repeat(value[0], count)]) for name, value in values.items()})


def test_a_million_episodes_in_a_few_bytes_are_refused_unread(toy, unread):
    file = only(toy / "reach" / "meta" / "episodes", "*.parquet")
    table = pq.ParquetFile(file).read()
    table = table.select([name for name in table.column_names if not name.startswith(("stats/", "tasks"))])
    pq.write_table(repeated(table, 1_000_000), file)
    assert file.stat().st_size < 200_000
    with pytest.raises(HoldfastError, match=r"would take \d\.\d GiB of memory, with \d+ KiB .* 256 MiB and 1000 times"):
        open_source(str(toy / "reach"))


def test_many_frames_in_a_few_bytes_are_refused_unread(tmp_path, unread):
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(10**7), pa.float32()), 1000)
    pq.write_table(pa.table({"action": values, "other": np.zeros(len(values))}), tmp_path / "a.parquet")
    for column in ("action", "other"):  # LeRobot reads them all
        with pytest.raises(HoldfastError, match=r"a\.parquet would take 0\.6 GiB"):
            tables.read([tmp_path / "a.parquet"], [column])


def test_the_files_of_a_folder_count_together(tmp_path, unread):
    column = pa.table({"action": np.zeros(10**6)})
    files = [tmp_path / f"{number}.parquet" for number in range(9)]
    for file in files:
        pq.write_table(column, file)
    tables._check(files[:1], ["action"])
    with pytest.raises(HoldfastError, match="GiB of memory"):
        tables.read(files, ["action"])


def test_recorded_tables_pass_without_the_free_share(toy, monkeypatch):
    monkeypatch.setattr(tables, "FREE", 0)
    monkeypatch.setattr(tables, "TIMES", tables.TIMES / 10)
    source = open_source(str(toy / "reach"))
    assert len(source.state) == 84
    assert read_words(source.root) == ["Please reach."]
    assert len(source.rows(2)) == 14


def test_a_text_that_repeats_is_in_memory_once(tmp_path):
    (tmp_path / "meta").mkdir()
    text, count = "Do it. " * 20_000, 5000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [text])
    table = pa.table({"task_index": range(count), "task": column})
    pq.write_table(table, tmp_path / "meta" / "tasks.parquet", store_schema=False)  # read as plain text otherwise
    before = pa.total_allocated_bytes()
    words = read_words(tmp_path)
    assert pa.total_allocated_bytes() - before < 10 * len(text)
    assert words == [text] * count
    assert len({id(word) for word in words}) == 1


@pytest.mark.parametrize(
    "content",
    [
        {"task": ["a"]},
        {"task_index": [0]},
        {"task_index": ["x"], "task": ["a"]},
        {"task_index": [0], "task": [3]},
        {"task_index": [0, 1], "task": ["a", None]},
    ],
)
def test_instructions_that_are_none_are_told(tmp_path, content):
    (tmp_path / "meta").mkdir()
    pq.write_table(pa.table(content), tmp_path / "meta" / "tasks.parquet")
    with pytest.raises(HoldfastError, match=r"tasks\.parquet (must have|holds)"):
        read_words(tmp_path)


def test_more_images_than_a_dictionary_holds_are_read_plainly(toy, monkeypatch):
    file = only(toy / "reach" / "data", "*.parquet")
    expected, read = tables.read([file], ["action"]), pq.read_table

    def full(path, read_dictionary=None, **more):
        if read_dictionary is not None:
            raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")
        return read(path, **more)

    monkeypatch.setattr(tables.pq, "read_table", full)
    assert tables.read([file], ["action"]).equals(expected)


def test_a_pipe_in_the_place_of_a_table_is_refused(toy):
    file = only(toy / "reach" / "data", "*.parquet")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(HoldfastError, match="not a regular file"):
        open_source(str(toy / "reach"))


# --- pictures


def png(side):
    """A PNG file that says to be a square of this side."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    size = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + size + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def put(root, content):
    """Replace every stored image."""
    file = only(root / "data", "*.parquet")
    table = pq.ParquetFile(file).read()
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": content, "path": "x"}] * len(table), kind)
    pq.write_table(table.set_column(table.column_names.index(IMAGE), IMAGE, images), file)


def first_image(root):
    source = open_source(str(root))
    return source.images(source.cameras[0], np.array([0]))


def test_a_huge_image_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    write_numbers(tmp_path / "data", NAMES, NAMES)
    put(tmp_path / "data", png(8000))
    monkeypatch.setattr("torchvision.io.decode_image", lambda *args: pytest.fail("decoded"))
    wanted = rf"{IMAGE} in frame 0 of dataset .* is 8000 x 8000 pixels; a picture may have 1 to 16777216"
    with pytest.raises(HoldfastError, match=wanted):
        first_image(tmp_path / "data")


@pytest.mark.parametrize("content", [b"", b"GIF89a", png(32), None], ids=["empty", "cut off", "too short", "none"])
def test_what_is_no_image_is_told_in_a_line(tmp_path, content):
    write_numbers(tmp_path / "data", NAMES, NAMES)
    put(tmp_path / "data", content)
    with pytest.raises(HoldfastError, match=r"in frame 0 of dataset .* cannot be decoded \("):
        first_image(tmp_path / "data")


def test_a_huge_camera_is_refused_with_the_header(toy):
    file = toy / "reach" / "meta" / "info.json"
    content = json.loads(file.read_text())
    for feature in content["features"].values():
        if feature["dtype"] == "video":
            feature["shape"][:2] = [5000, 5000]
    file.write_text(json.dumps(content))
    with pytest.raises(HoldfastError, match="is 5000 x 5000 pixels"):
        open_source(str(toy / "reach"))


def test_a_huge_black_camera_is_refused(toy):
    with pytest.raises(HoldfastError, match=r"top.* is 100000 x 100000 pixels"):
        apply(open_source(str(toy / "reach")), Mapping(cameras={"top": "black 100000x100000"}), None)


PEAK = """
import sys
from pathlib import Path
from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.open_video import open_video
import av

def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024

before = peak()
try:
    with open_video(Path(sys.argv[1])):
        print("opened")
except HoldfastError as error:
    print(peak() - before, error)
"""


def test_a_huge_video_is_refused_before_a_picture_is_decoded(tmp_path):
    side, file = 8000, tmp_path / "huge.mp4"
    with av.open(str(file), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"preset": "ultrafast", "rc-lookahead": "0"})
        stream.width, stream.height, stream.pix_fmt = side, side, "yuv420p"
        stream.codec_context.thread_count = 1
        container.mux(stream.encode(av.VideoFrame(side, side, "yuv420p")))
        container.mux(stream.encode())
    said = subprocess.run([sys.executable, "-c", PEAK, str(file)], capture_output=True, text=True, check=True).stdout
    taken, _, message = said.partition(" ")
    assert str(file) in message
    assert int(taken) < side * side  # one decoded picture takes half as much again


@pytest.mark.parametrize("codec", [False, pytest.param(True, marks=pytest.mark.skipif("not video.HAS_TORCHCODEC"))])
def test_a_huge_video_is_refused_before_it_is_decoded(toy, monkeypatch, codec):
    source = open_source(str(toy / "reach"))
    monkeypatch.setattr(video, "HAS_TORCHCODEC", codec)
    source.images(source.cameras[0], np.array([0]))
    monkeypatch.setattr(header, "LARGEST_PICTURE", 1000)
    with pytest.raises(HoldfastError, match=r"\.mp4 is 32 x 32 pixels"):
        source.images(source.cameras[0], np.array([0]))
    with pytest.raises(HoldfastError, match=r"\.mp4 is 32 x 32 pixels"):
        list(decode_all(only(toy / "reach" / "videos" / source.cameras[0].key, "*.mp4")))
