"""A dataset's fingerprint covers every byte, and what is remembered of it never hides a change."""

import json
import os
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from holdfast.core.records import Mapping
from holdfast.data.lerobot import fingerprint as hashing
from holdfast.data.lerobot.fingerprint import hash_files, partial_fingerprint, record_file
from holdfast.data.lerobot.source import open_source
from holdfast.data.mapping import apply


@pytest.fixture
def dataset(toy, tmp_path, monkeypatch):
    """A dataset with one long video, and a cache folder that remembers files however young they are."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hashing, "RECENT", -(2**62))
    with video(toy / "reach").open("ab") as file:
        file.write(struct.pack(">I4s", 300_008, b"free") + bytes(300_000))
    return toy / "reach"


def video(root):
    return min(root.rglob("*.mp4"))


def alter(path, offset, count=200):
    content = bytearray(path.read_bytes())
    for place in range(offset, min(offset + count, len(content))):
        content[place] ^= 0x55
    path.write_bytes(content)


def fingerprint(root):
    return open_source(str(root)).fingerprint


@pytest.fixture
def read(monkeypatch):
    """The files that were read to be hashed."""
    files = []
    hash_file = hashing._hash
    monkeypatch.setattr(hashing, "_hash", lambda path: files.append(path.name) or hash_file(path))
    return files


def test_two_hundred_altered_bytes_anywhere_in_a_video_are_seen(dataset):
    path = video(dataset)
    before, good = fingerprint(dataset), path.read_bytes()
    for offset in np.random.default_rng(0).integers(64, len(good) - 200, 20):
        path.write_bytes(good)
        source = open_source(str(dataset))
        assert source.fingerprint == before
        alter(path, int(offset))
        assert hashing.fingerprint(hash_files(source.root, source.files)) != before


@pytest.mark.parametrize("name", ["meta/info.json", "meta/stats.json", "meta/tasks.parquet"])
def test_a_table_of_the_same_size_with_other_bytes_is_seen(dataset, name):
    source = open_source(str(dataset))
    before = source.fingerprint
    alter(dataset / name, 30, count=1)
    assert hashing.fingerprint(hash_files(source.root, source.files)) != before


def test_videos_on_another_disk_are_covered(dataset, tmp_path):
    shutil.move(dataset / "videos", tmp_path / "elsewhere")
    (dataset / "videos").symlink_to(tmp_path / "elsewhere")
    before = fingerprint(dataset)
    alter(min((tmp_path / "elsewhere").rglob("*.mp4")), 150_000)
    assert fingerprint(dataset) != before


def test_the_same_files_elsewhere_have_the_same_fingerprint(dataset, tmp_path):
    assert fingerprint(shutil.copytree(dataset, tmp_path / "copy")) == fingerprint(dataset)


def test_files_are_read_once_until_they_change(dataset, read):
    before = fingerprint(dataset)
    assert len(read) == len(open_source(str(dataset)).files)
    read.clear()
    assert fingerprint(dataset) == before
    assert read == []
    alter(video(dataset), 150_000)
    assert fingerprint(dataset) != before
    assert read == [video(dataset).name]


def test_a_time_that_was_set_back_hides_nothing(dataset):
    before, stat = fingerprint(dataset), video(dataset).stat()
    alter(video(dataset), 150_000)
    os.utime(video(dataset), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert fingerprint(dataset) != before


def test_a_file_that_has_just_changed_is_read_again(dataset, read, monkeypatch):
    monkeypatch.setattr(hashing, "RECENT", 2**62)
    fingerprint(dataset)
    read.clear()
    fingerprint(dataset)
    assert video(dataset).name in read


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"hash": "', '"hash": "0', 1),
        lambda text: "[" * 100_000,
        lambda text: "[]",
        lambda text: '{"digest": 3, "record": "x"}',
    ],
)
def test_a_damaged_record_is_made_again(dataset, damage):
    before = fingerprint(dataset)
    file = record_file(dataset)
    good = json.loads(file.read_text())
    file.write_text(damage(file.read_text()))
    assert fingerprint(dataset) == before
    assert json.loads(file.read_text()) == good


def test_without_a_place_for_the_record_everything_is_hashed(dataset, tmp_path, monkeypatch, read):
    before = fingerprint(dataset)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "file"))
    read.clear()
    assert fingerprint(dataset) == before
    assert len(read) == len(open_source(str(dataset)).files)


def test_of_several_at_once_only_the_first_reads(dataset, read):
    files = open_source(str(dataset)).files
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: hash_files(dataset, files), range(8)))
    assert all(hashes == found[0] for hashes in found)
    assert len(read) == len(files)


@pytest.mark.parametrize("mapping", [None, Mapping(fps=15)], ids=["as it is", "mapped"])
def test_data_that_an_older_version_has_recorded_is_known_again(dataset, mapping):
    source = apply(open_source(str(dataset)), mapping, None)
    old = source._identity(partial_fingerprint(dataset))
    assert old != source.fingerprint
    assert source.matches(source.fingerprint)
    assert source.matches(old)
    assert not source.matches("")
    alter(dataset / "meta/tasks.parquet", 30, count=1)
    assert not source.matches(old)


def test_damage_is_remembered_when_another_file_grows(dataset):
    source = open_source(str(dataset))
    hash_files(dataset, source.files)
    alter(video(dataset), 150_000)
    with (dataset / "meta/stats.json").open("a") as file:
        file.write("\n")
    found = hash_files(dataset, source.files)
    assert [dataset / name for name, file in found.items() if file.altered] == [video(dataset)]
