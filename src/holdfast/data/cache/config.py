"""Where and how decoded frames are kept. Cheap to import, because `--help` needs it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.files import cache_folders

FORMATS = ("auto", "raw", "jpeg")


@dataclass(frozen=True)
class CacheConfig:
    """The frame cache: every video is decoded once, resized to what the policy reads, and shared between runs."""

    # Folder of all caches; empty means $HOLDFAST_CACHE or ~/.cache/holdfast/frames. `holdfast cache ls` shows it. Of
    # several, joined by colons, a cache goes into the first that has room.
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
    def folders(self) -> tuple[Path, ...]:
        """The folders of the caches."""
        return cache_folders(self.root)

    @property
    def folder(self) -> Path:
        """The folder of what is small."""
        return self.folders[0]

    @property
    def free(self) -> int:
        """Free bytes where most are free."""
        return max(_free(folder) for folder in self.folders)

    def place(self, key: str, size: int = 0) -> Path:
        """The folder of a cache: the one that has it, else the first with room for so many bytes, else the first."""
        having = (folder for folder in self.folders if (folder / key).is_dir())
        roomy = (folder for folder in self.folders if _free(folder) >= size)
        return next(chain(having, roomy, self.folders))

    @property
    def parallel(self) -> int:
        """Number of parallel workers."""
        return self.workers or os.cpu_count() or 1


def _free(folder: Path) -> int:
    """Free bytes on the disk of a folder that may not be there yet."""
    return shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free
