"""The run's own copies of the episodes it keeps, so that a dataset may be deleted once its stage is finished.

A copy of n episodes of a task is in `buffer/<task>/<n>`: complete or absent, verified before it is used. Its episodes
are ranked as in the buffer, so shrinking drops the last ones, and the files that stay are hard-linked, not written
again. At a stage's end old copies shrink before the new one is written, so the run never holds more than its budget
beside the task it learns. By then the stage's last step is saved, so after a kill no dropped episode is needed again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import read_json
from holdfast.data.lerobot.export import EpisodeChoice, keep_first, write_episodes
from holdfast.data.lerobot.source import Source
from holdfast.replay.buffer import Buffer, Kept


class EpisodeStore:
    """All copies of one run, in its `folder`. `peak` is the most bytes they and the current task took together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.peak = self._current = 0

    def place(self, kept: Kept) -> Path:
        """Folder of the copy of a task."""
        folder = self.folder / kept.task
        checked_folder.check_no_link(folder, self.folder.parent)
        return folder / str(len(kept.episodes))

    def check(self, kept: Kept) -> None:
        """Refuse a copy that is missing or does not have the bytes that were written."""
        problem = checked_folder.verify(self.place(kept))
        if problem:
            raise HoldfastError(
                f"The run's copy of task {kept.task!r}, {self.place(kept)}, is damaged: {problem}. "
                "Restore it from a backup, or start a new run with another --output."
            )

    def settle(self, buffer: Buffer, learned: Source, fingerprint: Callable[[Kept, Path], str]) -> Buffer:
        """Bring the copies in line with a stage's new buffer, whose last task was just learned from `learned`.

        Args:
            buffer: What is to be kept.
            learned: The dataset of the last task, as stored on disk.
            fingerprint: Fingerprint of a copy as training sees it.
        """
        self._current = size(learned.root)
        self._update_peak()
        for kept in buffer.tasks[:-1]:
            self._shrink(kept)
        self._copy(buffer.tasks[-1], learned)
        self._update_peak()
        return replace(buffer, tasks=tuple(replace(k, copy=fingerprint(k, self.place(k))) for k in buffer.tasks))

    def _shrink(self, kept: Kept) -> None:
        target = self.place(kept)
        if checked_folder.verify(target) is not None:
            larger = [p for p in _copies(target.parent) if int(p.name) > len(kept.episodes)]
            sound = [p for p in larger if checked_folder.verify(p) is None]
            if not sound:
                self.check(kept)
            checked_folder.write(target, lambda folder: keep_first(sound[0], len(kept.episodes), folder))
            self._update_peak()  # for a moment its small tables exist twice
        for other in _copies(target.parent):
            if other != target:
                shutil.rmtree(other)

    def _copy(self, kept: Kept, source: Source) -> None:
        target = self.place(kept)
        if checked_folder.verify(target) is None:
            return
        origin = {"task": kept.task, "dataset": source.dataset, "fingerprint": kept.fingerprint}
        part = EpisodeChoice(source, kept.episodes, {**origin, "episodes": list(kept.episodes)})
        share = len(source.frames_of(kept.episodes)) / len(source.state)
        needed = int(share * size(source.root))
        checked_folder.write(
            target, lambda folder: write_episodes(folder, [part], {"run": str(self.folder.parent)}), needed
        )

    def _update_peak(self) -> None:
        self.peak = max(self.peak, size(self.folder) + self._current)


def read_buffer(file: Path) -> Buffer:
    """Read a buffer.json; an empty buffer is an error."""
    buffer = read_json(Buffer, file)
    if not buffer.tasks:
        raise HoldfastError(f"{file} keeps no episode: its method replays nothing.")
    return buffer


def _copies(folder: Path) -> list[Path]:
    """Copies of a task, smallest first."""
    found = (p for p in folder.glob("*") if p.name.isdecimal() and not p.is_symlink())
    return sorted(found, key=lambda p: int(p.name))


def size(folder: Path) -> int:
    """Bytes of a folder's files; one that is linked twice counts once."""
    return sum({s.st_ino: s.st_size for s in (p.stat() for p in folder.rglob("*") if p.is_file())}.values())
