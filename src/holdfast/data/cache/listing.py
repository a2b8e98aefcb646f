"""All frame caches of a folder: contents, size and last use of each. Cheap to import."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout

from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.locks import file_lock

HEADER, JOURNAL, LOCK, QUANTILES = "cache.json", "blocks.jsonl", ".lock", "quantiles"


@dataclass(frozen=True)
class CacheEntry:
    """One cache on disk. `used` is in seconds since 1970; `whole` is false while it is being built."""

    key: str
    dataset: str
    images: str
    format: str
    frames: int
    bytes: int
    used: float
    whole: bool


def list_caches(root: Path) -> list[CacheEntry]:
    """Every cache below `root`, last used first; one with a damaged header is listed as unknown."""
    found = [_read_entry(header.parent) for header in root.glob(f"*/{HEADER}")]
    return sorted(found, key=lambda cache: -cache.used)


def remove_cache(root: Path, key: str) -> None:
    """Delete a cache. A run that reads it keeps its mapped files; one that is being built is refused."""
    folder = root / key
    lock = file_lock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise HoldfastError(f"Frame cache {key} is being built by another process. Wait for it or stop it.") from None
    try:
        (folder / HEADER).unlink(missing_ok=True)  # first, so that a kill leaves no cache that looks complete
        shutil.rmtree(folder)
    finally:
        lock.release()


def remove_quantiles(root: Path) -> None:
    """Delete all stored statistics."""
    shutil.rmtree(root / QUANTILES, ignore_errors=True)


def say_size(size: int) -> str:
    """A size in bytes as text."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def _read_entry(folder: Path) -> CacheEntry:
    size = sum(file.stat().st_blocks * 512 for file in folder.iterdir())
    used = (folder / HEADER).stat().st_mtime
    try:
        spec = outside.read_json(folder / HEADER)["spec"]
        sizes = dict.fromkeys(f"{width}x{height}" for height, width in spec["cameras"].values())
        lines = outside.read_text(folder / JOURNAL).count("\n") if (folder / JOURNAL).exists() else 0
        whole = lines >= len(spec["blocks"]) * len(spec["cameras"])
        images = f"{len(spec['cameras'])} x {', '.join(sizes)}"
        return CacheEntry(folder.name, spec["dataset"], images, spec["format"], spec["frames"], size, used, whole)
    except (HoldfastError, ValueError, KeyError, TypeError, AttributeError):
        return CacheEntry(folder.name, "unknown", "", "", 0, size, used, False)
