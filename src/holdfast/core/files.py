"""Atomic writes of files, logs, and the folder for what can be made again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from holdfast.core.errors import HoldfastError


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically: a kill leaves the old content or the new, never a mixture."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file atomically."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write into, which takes the name `path` when the block ends; after an error the old one stays."""
    temporary = path.with_name(f".writing-{secrets.token_hex(8)}")  # no link that waits here, no other writer's file
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_log(path: Path) -> TextIO:
    """Open a log to add lines. A link in its place is refused, since what it leads to would grow; so is a pipe."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise HoldfastError(f"{path} is not a regular file, so no line is added to it. Move it away.")
    return path.open("a")


def cache_folder() -> Path:
    """The folder of everything that can be made again: $HOLDFAST_CACHE, or ~/.cache/holdfast/frames."""
    return Path(os.environ.get("HOLDFAST_CACHE") or "~/.cache/holdfast/frames").expanduser()
