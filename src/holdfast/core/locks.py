"""File locks between processes. A lock is released when its process ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from holdfast.core.errors import HoldfastError

_GRACE = 2.0  # seconds; what a killed process has just started may still hold its locks for a moment


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock; `busy` is the error if another process holds it."""
    lock = file_lock(path)
    try:
        lock.acquire(_GRACE)  # creates the folder if there is none
    except Timeout:
        raise HoldfastError(busy) from None
    except OSError as error:
        raise HoldfastError(f"The folder {path.parent} cannot be written ({error.strerror}).") from None
    try:
        yield
    finally:
        lock.release()


def file_lock(path: Path) -> FileLock:
    """A lock that is not acquired yet; acquiring it creates the file's folder.

    If the file is deleted while other processes wait for it, they lock the file that replaces it.
    """
    # On a file system without flock, filelock would fall back to a lock file that outlives a killed process.
    return FileLock(path, fallback_to_soft=False)
