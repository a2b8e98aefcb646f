"""A run's folder during training: its settings, its finished stages, and a lock against a second process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.core.json_records import read_content
from holdfast.core.locks import locked
from holdfast.core.records import Stage
from holdfast.embodiments.embodiment import Embodiment
from holdfast.runs.checkpoint import Checkpoint
from holdfast.runs.embodiment import settle_embodiment
from holdfast.runs.own_files import settle_method, settle_selection
from holdfast.runs.paths import RunPaths, StagePaths
from holdfast.runs.run_log import RunLog
from holdfast.runs.settings import settle_settings


class RunFolder:
    """A run that is being trained. Of several ranks only the first writes its log."""

    def __init__(self, path: Path, say: Callable[[str], None], writes: bool = True) -> None:
        self.path = path
        self.paths = RunPaths(path)
        self.say = say
        self.log = RunLog(self.paths.log if writes else None)

    def begin(self, config: dict[str, Any], tasks: list[dict[str, Any]], embodiment: Embodiment | None) -> None:
        """Store settings, tasks, robot and the user's own code, or check that the run was started with the same ones.

        If an older version did not store the robot, it is stored now.
        """
        settle_settings(self.paths.settings, config, tasks)
        settle_embodiment(self.paths.embodiment, embodiment)
        settle_method(self.paths, config.get("method", ""))
        settle_selection(self.paths, config.get("replay", {}).get("selection", ""))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder; the lock is released when the process ends, however it ends."""
        with locked(self.paths.lock, f"Another process is training in {self.path}. Wait for it or stop it."):
            yield

    def frame_format(self, task: str, asked: str) -> str:
        """The format of a task's frames: the one the run started with, since JPEG changes pixels and so weights."""
        begun = self._frame_formats().get(task)
        if begun and asked not in ("auto", begun):
            raise HoldfastError(
                f"{self.path} has trained on {begun} frames of {task!r}; --cache.format={asked} would change them. "
                f"Use --cache.format={begun} or auto to continue, or another --output for a new run."
            )
        return begun or asked

    def keep_frame_format(self, task: str, chosen: str) -> None:
        """Store the format of a task's frames."""
        known = self._frame_formats()
        if known.get(task) != chosen:
            write_text(self.paths.frame_formats, json.dumps({**known, task: chosen}, indent=1))

    def _frame_formats(self) -> dict[str, str]:
        file = self.paths.frame_formats
        formats = read_content(file) if file.exists() else {}
        if not isinstance(formats, dict) or not all(isinstance(value, str) for value in formats.values()):
            raise HoldfastError(f"{file} must give every task's format, got {str(formats)[:80]!r}. Restore it.")
        return formats

    def stage(self, stage: Stage) -> StagePaths:
        """The files of a stage."""
        files = self.paths.stage(stage)
        checked_folder.check_no_link(files.progress, self.path)
        return files

    def finished(self, stage: Stage) -> Checkpoint | None:
        """The stage's final checkpoint if it exists and is intact; if it is damaged, the stage is redone."""
        found = self.stage(stage).checkpoint
        if not found.folder.exists():
            return None
        problem = checked_folder.verify(found.folder)
        if problem:
            self.say(f"Checkpoint {found.folder} is damaged: {problem}. Going back to the stage's last progress.")
            return None
        return found
