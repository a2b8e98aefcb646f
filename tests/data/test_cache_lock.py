"""The lock of a frame cache: one builder at a time, also when the cache is deleted under those who wait for it."""

import fcntl
import shutil
import time
from types import SimpleNamespace

import pytest
from filelock import Timeout

from holdfast.core.errors import HoldfastError
from holdfast.core.locks import file_lock
from holdfast.data.cache.files import CacheFiles
from holdfast.data.cache.listing import LOCK, remove_cache


@pytest.fixture
def files(tmp_path):
    return CacheFiles(tmp_path / "root", SimpleNamespace(key="key", format="raw"))


def is_taken(files):
    try:
        with file_lock(files.folder / LOCK).acquire(blocking=False):
            return False
    except Timeout:
        return True


def test_it_is_taken_at_once_and_given_back_after_an_error(files):
    with files.locked(pytest.fail):
        assert is_taken(files)
    with pytest.raises(RuntimeError, match="oops"), files.locked(pytest.fail):
        raise RuntimeError("oops")
    assert not is_taken(files)


def test_a_cache_removed_while_another_waits_is_begun_anew(files, monkeypatch):
    files.folder.mkdir(parents=True)
    builder = (files.folder / LOCK).open("w")  # stands for another process
    fcntl.flock(builder, fcntl.LOCK_EX)
    said = []

    def removed_meanwhile(seconds):
        shutil.rmtree(files.folder)
        builder.close()

    monkeypatch.setattr(time, "sleep", removed_meanwhile)  # between two tries to take the lock
    with files.locked(lambda: said.append("waiting")):
        assert is_taken(files), "the lock is on the file that is there now, not on the one that is gone"
    assert said == ["waiting"]


def test_a_cache_that_is_being_built_is_not_removed(files):
    with files.locked(pytest.fail):
        with pytest.raises(HoldfastError, match="is being built by another process"):
            remove_cache(files.folder.parent, "key")
        assert files.folder.exists()
    remove_cache(files.folder.parent, "key")
    assert not files.folder.exists()
    remove_cache(files.folder.parent, "key")  # another process was first
    assert not files.folder.exists()


def test_a_root_that_cannot_be_written_is_named_with_the_flag(tmp_path):
    (tmp_path / "file").write_text("")
    files = CacheFiles(tmp_path / "file", SimpleNamespace(key="key", format="raw"))
    with pytest.raises(HoldfastError, match=r"cannot be written .*--cache\.root"), files.locked(pytest.fail):
        pass
