"""A run's folder: what it was asked to do, its stages, and the lock that keeps a second process out."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from holdfast.runs.run_log import RunLog
from holdfast.core.files import write_text
from holdfast.core.errors import HoldfastError
from holdfast.norm.strategies import Normalization
from holdfast.replay.buffer import Buffer
from holdfast.core import checked_folder as checkpoint
from holdfast.core.records import Stage

# What may differ between two starts of one run: nothing here changes the weights it ends with (how ranks share the work
# changes the order of sums, so their last bits). Where the stream's file
# and datasets lie is free too: tasks are compared by what they say, datasets by their fingerprints, and the format of
# cached frames is kept in a file of its own.
FREE = ("output", "dry_run", "json", "log", "checkpoint", "cache", "stream", "data_root", "parallel")
FRAME_FORMATS = "frames.json"


@dataclass(frozen=True)
class Finished:
    """A stage's final checkpoint, verified."""

    folder: Path
    normalization: Normalization
    buffer: Buffer
    schema: dict[str, Any]

    @property
    def policy(self) -> Path:
        """Folder that LeRobot loads."""
        return self.folder / "policy"


class RunFolder:
    """Names the files of a run and answers what is done already. One of several ranks writes its log."""

    def __init__(self, path: Path, say: Callable[[str], None], writes: bool = True) -> None:
        self.path = path
        self.say = say
        self.log = RunLog(path / "audit.jsonl" if writes else None)

    def begin(self, config: dict[str, Any], tasks: list[dict[str, Any]]) -> None:
        """Write run.yaml, or make sure that the run was begun with the same settings and tasks."""
        asked = {"config": {k: v for k, v in config.items() if k not in FREE}, "tasks": tasks}
        file = self.path / "run.yaml"
        if not file.exists():
            write_text(file, yaml.safe_dump(asked, sort_keys=False))
            return
        begun = yaml.safe_load(file.read_text()) or {}
        changed = list(_differences(begun, json.loads(json.dumps(asked))))
        if changed:
            raise HoldfastError(
                f"{self.path} was begun with other settings: {'; '.join(changed[:4])}. "
                "Use the same command to go on, or another --output for a new run."
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the folder to this process; the lock goes with the process, however it ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        except OSError as error:
            raise HoldfastError(f"The run's folder {self.path} cannot be written ({error.strerror}).") from None
        with lock as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HoldfastError(f"Another process is training in {self.path}. Wait for it or stop it.") from None
            yield

    def frame_format(self, task: str, asked: str) -> str:
        """The format a task's frames are read in: what the run began with, since JPEG changes pixels and so weights."""
        begun = self._frame_formats().get(task)
        if begun and asked not in ("auto", begun):
            raise HoldfastError(
                f"{self.path} has trained on {begun} frames of {task!r}; --cache.format={asked} would change them. "
                f"Use --cache.format={begun} or auto to go on, or another --output for a new run."
            )
        return begun or asked

    def keep_frame_format(self, task: str, chosen: str) -> None:
        """Write down the format a task's frames are read in."""
        known = self._frame_formats()
        if known.get(task) != chosen:
            write_text(self.path / FRAME_FORMATS, json.dumps({**known, task: chosen}, indent=1))

    def _frame_formats(self) -> dict[str, str]:
        file = self.path / FRAME_FORMATS
        formats: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
        return formats

    def stage(self, stage: Stage) -> Path:
        """A stage's folder."""
        return self.path / "stages" / stage.folder

    def finished(self, stage: Stage) -> Finished | None:
        """The stage's final checkpoint if it is there and sound; a damaged one is named, and the stage is redone."""
        folder = self.stage(stage) / "checkpoint"
        if not folder.exists():
            return None
        problem = checkpoint.verify(folder)
        if problem:
            self.say(f"Checkpoint {folder} is damaged: {problem}. Going back to the stage's last progress.")
            return None
        return read_finished(folder)


def read_finished(folder: Path) -> Finished:
    """Read what a final checkpoint holds beside the weights."""
    return Finished(
        folder,
        Normalization.from_json(json.loads((folder / "normalization.json").read_text())),
        Buffer.from_json(json.loads((folder / "buffer.json").read_text())),
        json.loads((folder / "schema.json").read_text()),
    )


def _differences(begun: Any, asked: Any, name: str = "") -> Iterator[str]:
    if isinstance(begun, dict) and isinstance(asked, dict):
        for key in [*asked, *(k for k in begun if k not in asked)]:
            yield from _differences(begun.get(key), asked.get(key), f"{name}.{key}" if name else str(key))
    elif isinstance(begun, list) and isinstance(asked, list) and len(begun) == len(asked):
        for number, (one, other) in enumerate(zip(begun, asked, strict=True), 1):
            yield from _differences(one, other, f"{name}[{number}]")
    elif begun != asked:
        yield f"{name.removeprefix('config.')} was {begun!r}, now {asked!r}"
