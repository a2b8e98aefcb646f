"""Small files are written whole, and nothing but the named file is touched."""

import os
import threading

import pytest

from holdfast.core import files
from holdfast.core.errors import HoldfastError


def test_the_content_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "next.json"
    for text in ("old", "naïve"):
        files.write_text(path, text)
    assert path.read_text(encoding="utf-8") == "naïve"
    assert [file.name for file in tmp_path.iterdir()] == ["next.json"]


def test_links_and_leftovers_in_the_folder_are_not_written_to(tmp_path):
    (tmp_path / "notes.txt").write_text("keep")
    (tmp_path / ".next.json.writing").symlink_to("notes.txt")
    (tmp_path / ".run.yaml.writing").mkdir()
    for name in ("next.json", "run.yaml"):
        files.write_text(tmp_path / name, "new")
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "notes.txt").read_text() == "keep"


def test_a_new_file_has_the_mode_that_the_user_chose(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    files.write_text(tmp_path / "own", "")
    assert (tmp_path / "own").stat().st_mode == plain.stat().st_mode


def test_two_writers_of_one_file_leave_the_content_of_one_of_them(tmp_path, monkeypatch):
    path, begun, sync = tmp_path / "next.json", threading.Barrier(2), os.fsync

    def both_at_once(number):
        begun.wait(60)  # both have written, none has renamed
        sync(number)

    monkeypatch.setattr(files.os, "fsync", both_at_once)
    failed = []

    def write(text):
        try:
            files.write_text(path, text)
        except OSError as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(letter * 1000,)) for letter in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    assert path.read_text() in ("a" * 1000, "b" * 1000)


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, broken):
    path = tmp_path / "next.json"
    files.write_text(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, broken, full)
    with pytest.raises(OSError, match="No space"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["next.json"]


def test_a_large_file_is_replaced_as_a_whole_too(tmp_path):
    path = tmp_path / "state.npy"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), files.replacing(path) as file:
        file.writelines([b"half of the new", None])
    assert path.read_bytes() == b"old"
    with files.replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["state.npy"]


@pytest.mark.parametrize("kind", ["link", "broken link", "pipe", "folder"])
def test_lines_are_added_to_a_regular_file_only(tmp_path, kind):
    log, other = tmp_path / "audit.jsonl", tmp_path / "notes.txt"
    if kind == "link":
        other.write_text("keep")
    if "link" in kind:
        log.symlink_to(other)
    if kind == "pipe":
        os.mkfifo(log)
    if kind == "folder":
        log.mkdir()
    with pytest.raises(HoldfastError, match=r"audit\.jsonl is not a regular file"):
        files.open_log(log)
    assert other.exists() == (kind == "link")
