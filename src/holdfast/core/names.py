"""Names that become names of files: they are checked for length before any work starts."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.core.errors import HoldfastError

LONGEST_FILE = 255  # bytes of a file's name, on the usual file systems
# From names we make longer ones: `.writing-RUN-12`, `.TASK-1000000.mp4`, `.TASK.recording`.
LONGEST_NAME = 200
LONGEST_PATH = 3000  # of the 4096 bytes that systems allow; a run's files take the rest


def check_length(name: str, what: str, longest: int = LONGEST_NAME) -> None:
    """Refuse a name that is too long to name files after it; `what` says whose it is."""
    size = len(os.fsencode(name))
    if size > longest:
        raise HoldfastError(
            f"{what} is too long: {name[:40]!r}... has {size} bytes. Files are named after it: use at most {longest}."
        )


def check_path(path: str | Path, what: str, longest: int = LONGEST_NAME) -> None:
    """Refuse a path whose last part, or any other, is too long for the files that are named after it."""
    *folders, name = Path(path).parts or ("",)
    for folder in folders:
        check_length(folder, what, LONGEST_FILE)
    check_length(name, what, longest)
    size = len(os.fsencode(os.path.abspath(path)))
    if size > LONGEST_PATH:
        raise HoldfastError(f"{what} is too long: {str(path)[:40]!r}... has {size} bytes. Use at most {LONGEST_PATH}.")
