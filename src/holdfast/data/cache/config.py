"""Where and how decoded frames are kept. Cheap to import, because `--help` needs it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.files import cache_folder

FORMATS = ("auto", "raw", "jpeg")


@dataclass(frozen=True)
class CacheConfig:
    """The frame cache: every video is decoded once, resized to what the policy reads, and shared between runs."""

    # Folder of all caches; empty means $HOLDFAST_CACHE or ~/.cache/holdfast/frames. `holdfast cache ls` shows it.
    root: str = ""
    # raw: pixels as decoded, the fastest; jpeg: a fifth of the disk; auto: raw if it takes at most half of the free
    # disk and 256 GiB. A run keeps the format it began with.
    format: str = "auto"
    # Processes that build a cache, and threads that check it; 0 means one per core.
    workers: int = 0

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise unknown("--cache.format", self.format, FORMATS)
        if self.workers < 0:
            raise HoldfastError(f"--cache.workers must be at least 0, got {self.workers}.")

    @property
    def folder(self) -> Path:
        """The folder of the caches."""
        return Path(self.root).expanduser() if self.root else cache_folder()

    @property
    def parallel(self) -> int:
        """Number of parallel workers."""
        return self.workers or os.cpu_count() or 1
