"""Folders that are complete or absent: written under another name, hashed, synced, renamed; verified before use."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Protocol

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.names import check_path

MANIFEST = "manifest.json"


class Writers(Protocol):
    """Processes that write one folder together. What must happen only once is done by the first."""

    @property
    def first(self) -> bool:
        """Whether this process is the first."""

    def together(self) -> AbstractContextManager[None]:
        """A block that no process leaves before all have finished it; an error in one is raised in all."""


class _OneWriter:
    first = True

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()


def write(folder: Path, fill: Callable[[Path], None], needed: int = 0, writers: Writers | None = None) -> None:
    """Let `fill` write into a temporary folder, then rename it to `folder`.

    Args:
        folder: Its final path.
        fill: Writes the files.
        needed: Bytes they will take, if known; checked against the free space first.
        writers: All of them call `fill`; the first does the rest. None: only this process.
    """
    check_path(folder, "The folder's name")
    writers = writers or _OneWriter()
    temporary = folder.with_name(f".writing-{folder.name}")
    try:
        with writers.together():
            if writers.first:
                _make_room(temporary, needed)
        with writers.together():
            fill(temporary)
        with writers.together():
            if writers.first:
                _write_manifest(temporary)
                _replace(temporary, folder)
    except Exception as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if _means_full(error):
            raise HoldfastError(
                f"The disk is full: {folder} could not be written ({error}). What was saved before is untouched. "
                "Free some space and run the same command again."
            ) from None
        raise


def verify(folder: Path) -> str | None:
    """Describe what is wrong with a folder; None if every file exists with the bytes that were written."""
    if folder.is_symlink():
        return "it is a link"
    if not os.path.lexists(folder / MANIFEST):
        return f"{MANIFEST} is missing"
    try:
        files = read_manifest(folder)
        if not files:
            return "its manifest lists no file"
        for name, digest in files.items():
            file = folder / name
            if file.resolve() != folder.resolve() / name:
                return f"{name} is a link, or below one"
            if not file.is_file():
                return f"{file.name} cannot be read: it is not a file" if file.exists() else f"{file.name} is missing"
            if file_hash(file) != digest:
                return f"{name} does not have the bytes that were written"
    except HoldfastError:
        return "its manifest cannot be read"
    except (OSError, ValueError) as error:
        return f"it cannot be read ({error})"
    return None


def check_no_link(folder: Path, root: Path) -> None:
    """Refuse a folder below `root` that a link leads to: what is there is not ours to use, and not ours to delete."""
    below = folder.relative_to(root).parts
    for path in (root.joinpath(*below[: depth + 1]) for depth in range(len(below))):
        if path.is_symlink():
            raise HoldfastError(f"{path} is a link; it must be a folder of its own. Put in its place what it leads to.")


def check_no_links(folder: Path) -> None:
    """Refuse a folder that is a link, or has one anywhere inside."""
    check_no_link(folder, folder.parent)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            check_no_link(Path(place, name), folder)


def read_manifest(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a folder, by its path inside the folder."""
    content = outside.read_json(folder / MANIFEST)
    if not isinstance(content, dict):
        raise HoldfastError(f"{folder / MANIFEST} must hold an object, got {str(content)[:80]!r}.")
    for name, digest in content.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not isinstance(digest, str):
            raise HoldfastError(f"{folder / MANIFEST} lists {name[:80]!r}, which is not a file of the folder.")
    return content


def newest(folder: Path, say: Callable[[str], None]) -> Path | None:
    """The newest intact `step-*` folder in `folder`; damaged ones are reported and skipped."""
    for candidate in reversed(_steps(folder)):
        problem = verify(candidate)
        if problem is None:
            return candidate
        say(f"{candidate} is damaged: {problem}. Going back to the one saved before it.")
    return None


def step(folder: Path) -> int:
    """The step at which a `step-*` folder was written."""
    return int(folder.name.removeprefix("step-"))


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` folders `step-*`, and those that a kill left half-written."""
    for old in [*_steps(folder)[: -keep or None], *folder.glob(".writing-*"), *folder.glob(".old-*")]:
        shutil.rmtree(old, ignore_errors=True)


def _steps(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("step-*") if path.name.removeprefix("step-").isdecimal()), key=step)


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with outside.open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_room(temporary: Path, needed: int) -> None:
    temporary.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    free = shutil.disk_usage(temporary.parent).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed / 2**20:.0f} MiB needed, {free / 2**20:.0f} MiB free")
    temporary.mkdir()


def _write_manifest(folder: Path) -> None:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for path in files:
        _sync(path)
    content = {str(p.relative_to(folder)): file_hash(p) for p in files}
    (folder / MANIFEST).write_text(json.dumps(content, indent=1))
    _sync(folder / MANIFEST)
    for directory in {p.parent for p in files} | {folder}:
        _sync(directory)


def _replace(new: Path, folder: Path) -> None:
    # A folder cannot be renamed over another, so the old one is moved away first. A kill in between leaves none:
    # the steps since the folder before are then repeated, with the same result.
    old = folder.with_name(f".old-{folder.name}")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _means_full(error: Exception) -> bool:
    # safetensors reports a full disk with its own error type and the errno only in the text.
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return getattr(error, "errno", None) in full or "No space left" in str(error) or "os error 28" in str(error)
