"""Builds frame caches ahead of their use, in a process of its own with the lowest priority."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rich.console import Console

from holdfast.core.json_records import from_json, to_json
from holdfast.core.processes import killed_with_parent
from holdfast.core.records import StreamTask
from holdfast.data import mapping
from holdfast.data.cache.cache import open_planned, plan_cache
from holdfast.data.cache.config import CacheConfig
from holdfast.data.cache.files import CacheFiles
from holdfast.data.lerobot.source import open_source
from holdfast.data.resize import Resize
from holdfast.embodiments.embodiment import Embodiment


@dataclass(frozen=True)
class FutureCache:
    """A task whose dataset will be read, with all that decides its frame cache."""

    task: StreamTask
    embodiment: Embodiment | None
    resize: Resize | None
    config: CacheConfig

    def build(self) -> None:
        """Build what is missing, without checking what is there."""
        source = mapping.apply(open_source(self.task.dataset), self.task.mapping, self.embodiment)
        spec = plan_cache(source, self.resize, self.config)
        files = CacheFiles(self.config.place(spec.key), spec)
        if len(files.read_blocks()) < len(spec.blocks) * len(spec.cameras):
            open_planned(source, spec, self.config, Console(quiet=True))


@contextmanager
def built_meanwhile(caches: Sequence[FutureCache]) -> Iterator[None]:
    """Build caches as far as the time allows. What stops them is said when they are opened."""
    command = [sys.executable, "-m", "holdfast.data.cache.ahead", str(os.getpid())]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet) as process:
        assert process.stdin
        with suppress(BrokenPipeError):  # it has failed already
            process.stdin.write(json.dumps(to_json(list(caches))).encode())
            process.stdin.close()
        try:
            yield
        finally:
            process.kill()  # finished blocks stay


if __name__ == "__main__":
    killed_with_parent(int(sys.argv[1]))
    os.nice(19)
    for cache in json.load(sys.stdin):
        from_json(FutureCache, cache, "standard input").build()
