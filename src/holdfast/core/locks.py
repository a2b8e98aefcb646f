"""File locks between processes. A lock is released when its process ends, however it ends."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock


def file_lock(path: Path) -> FileLock:
    """A lock that is not acquired yet; acquiring it creates the file's folder.

    If the file is deleted while other processes wait for it, they lock the file that replaces it.
    """
    # On a file system without flock, filelock would fall back to a lock file that outlives a killed process.
    return FileLock(path, fallback_to_soft=False)
