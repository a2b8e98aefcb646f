"""Locks: refused while a process lives, but not because of one that is just ending."""

import fcntl
import os
import threading

import pytest

from holdfast.core import locks
from holdfast.core.errors import HoldfastError


@pytest.fixture
def held(tmp_path):
    """A lock as another process would hold it, with the file that holds it."""
    path = tmp_path / "lock"
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    return path, file


def test_a_lock_that_is_let_go_in_time_is_taken(held, monkeypatch):
    path, file = held
    monkeypatch.setattr(locks, "_GRACE", 600)
    threading.Timer(0.1, os.close, [file]).start()
    with locks.locked(path, "busy"), path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it is held now


def test_a_lock_that_is_kept_is_refused(held, monkeypatch):
    path, file = held
    monkeypatch.setattr(locks, "_GRACE", 0.1)
    with pytest.raises(HoldfastError, match="busy"), locks.locked(path, "busy"):
        pass
    os.close(file)
