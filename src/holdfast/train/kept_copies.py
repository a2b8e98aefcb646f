"""Copies of kept episodes at the end of a stage (--replay.store=copy)."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Stream
from holdfast.data.cache.listing import remove_cache
from holdfast.data.lesson import Lesson
from holdfast.embodiments.embodiment import Embodiment
from holdfast.replay.buffer import Buffer, Kept
from holdfast.replay.store import EpisodeStore, size
from holdfast.runs.folder import RunFolder
from holdfast.train.config import TrainConfig
from holdfast.train.stage_data import StageData, open_lesson


def copy_kept(
    run: RunFolder,
    stream: Stream,
    config: TrainConfig,
    embodiment: Embodiment | None,
    console: Console,
    buffer: Buffer,
    learned: Lesson,
) -> Buffer:
    """Make the run independent of the dataset it has just learned, and report the disk space."""
    store = EpisodeStore(run.paths.buffer)
    entries = {entry.task.name: entry for entry in stream.tasks}

    def fingerprint(kept: Kept, folder: Path) -> str:
        entry = replace(entries[kept.task], dataset=str(folder))
        return open_lesson(entry, config, embodiment, run).source.fingerprint

    buffer = store.settle(buffer, learned.source.raw, fingerprint)
    copies, task = size(store.folder), size(learned.source.root)
    run.log.write("copies", bytes=copies, task_bytes=task, peak_bytes=store.peak)
    back = stream.names.count(learned.task.name) > 1
    console.print(
        f"Copies of kept episodes: {copies / 2**20:.1f} MiB; with this task's dataset at most "
        f"{store.peak / 2**20:.1f} MiB. {learned.source.dataset} is "
        + ("needed again when its task comes back." if back else "no longer needed.")
    )
    return buffer


def free_frames(config: TrainConfig, data: StageData) -> None:
    """Delete a stage's cached frames: such runs limit their disk space, and the next stage reads other frames."""
    for cache in data.caches:
        with contextlib.suppress(HoldfastError, FileNotFoundError):  # in use by another run, or deleted already
            remove_cache(config.cache.folder, cache.spec.key)
