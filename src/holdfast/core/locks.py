"""Locks between processes, each held by a file. A lock goes with its process, however that ends."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock


def file_lock(path: Path) -> FileLock:
    """A lock that is not taken yet; whoever takes it has the file's folder made.

    A file that is deleted while others wait for it counts no more: they take the lock on the file that is there then.
    """
    # On a file system without flock, filelock would fall back to a file that outlives a killed process: never do that.
    return FileLock(path, fallback_to_soft=False)
