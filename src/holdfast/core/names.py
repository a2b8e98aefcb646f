"""Names that become names of files: they are checked before any work starts."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.core.errors import HoldfastError, did_you_mean

LONGEST_FILE = 255  # bytes of a file's name, on the usual file systems
# From names we make longer ones: `.writing-RUN-12`, `.TASK-1000000.mp4`, `.TASK.recording`.
LONGEST_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
LONGEST_PATH = 3000  # of the 4096 bytes that systems allow; a run's files take the rest


def check_name(name: object, where: str) -> None:
    """Refuse a name that could not be a folder's name or a command-line value."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise HoldfastError(f"{where}: name {name!r} must be letters, digits, '_' and '-', like 'stack_bowls'.")
    check_length(name, f"{where}: the name")


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


def near_path(path: str | Path) -> str:
    """A question after a space that names what is there instead of a missing path; nothing if no name is close."""
    place = Path(path).expanduser()
    while not place.parent.exists():
        place = place.parent
    try:
        names = [entry.name for entry in place.parent.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return ""
    return did_you_mean(place.name, names, "" if place.parent == Path() else f"{place.parent}/")


def without_folders(value: Any) -> Any:
    """Plain values without folders of this machine: of text that is an absolute path, only the last part stays."""
    if isinstance(value, dict):
        return {key: without_folders(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [without_folders(entry) for entry in value]
    return PurePosixPath(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value
