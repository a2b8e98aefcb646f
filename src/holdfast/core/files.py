"""Atomic writes of small files, and the folder for what can be made again."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically: a kill leaves the old content or the new, never a mixture."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file atomically."""
    temporary = path.with_name(f".writing-{secrets.token_hex(8)}")  # no link that waits here, no other writer's file
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def cache_folder() -> Path:
    """The folder of everything that can be made again: $HOLDFAST_CACHE, or ~/.cache/holdfast/frames."""
    return Path(os.environ.get("HOLDFAST_CACHE") or "~/.cache/holdfast/frames").expanduser()
