"""The progress of commands: bars on a terminal, and a file for the command that started this one.

`holdfast run` and `holdfast study run` start commands whose output goes to a log. They name a file in the environment
variable `HOLDFAST_PROGRESS`; the command writes into it how far it is, and they show that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from holdfast.core.clock import STEADY, Clock
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import read_json, to_json

VARIABLE = "HOLDFAST_PROGRESS"
_EVERY = 0.5  # seconds between two states in the file

type WatchSteps = Callable[[int], None]  # told the control steps of all simulators so far, at least every second


@dataclass(frozen=True)
class ProgressState:
    """How far a command is: in words, and as a share of all it has to do, from 0 to 1."""

    text: str
    share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise HoldfastError(f"A share must be from 0 to 1, got {self.share}.")


class Bars(Progress):
    """Bars whose tasks need the field `note`; hidden if there is no terminal.

    `part` is the part of the whole command that they stand for, like (0.5, 1.0). Bars without one, such as those of
    preparations, say what is going on and leave the share of the command as it is.
    """

    def __init__(self, console: Console, part: tuple[float, float] | None = None, clock: Clock = STEADY) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._part, self._clock, self._told = part, clock, float("-inf")

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a task."""
        super().update(task_id, **changes)
        self._tell(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Move a task on."""
        super().advance(task_id, advance)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        file, now = os.environ.get(VARIABLE), self._clock.now()
        if not file or self.console.quiet or now - self._told < _EVERY:
            return
        self._told = now
        task = next(task for task in self.tasks if task.id == task_id)
        count = f"{task.completed:,.0f}" + (f" of {task.total:,.0f}" if task.total else "")
        text = f"{task.description} {count}  {task.fields['note']}".rstrip()
        write_state(Path(file), ProgressState(text, self._share(Path(file))))

    def _share(self, file: Path) -> float:
        if self._part is None:
            before = read_state(file)
            return before.share if before else 0.0
        begin, end = self._part
        done, total = sum(task.completed for task in self.tasks), sum(task.total or 0 for task in self.tasks)
        return min(1.0, begin + (end - begin) * (done / total if total else 0.0))


def progress_bar(console: Console, part: tuple[float, float] | None = None) -> Bars:
    """The bars of all commands: count, elapsed and remaining time, and a note."""
    return Bars(console, part)


@contextmanager
def working(text: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """A spinner with the time gone, for work of unknown length; what is yielded changes its text.

    Without a terminal it prints nothing, or each new text as a line if a console is given.
    """
    shown = console or Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(escape(text), total=None)  # drawn at once

        def say(text: str) -> None:
            progress.update(task, description=escape(text))
            if console is not None and not console.is_terminal:
                console.print(f"{text} ...", markup=False, soft_wrap=True)

        say(text)
        yield say


def progress_file(log: Path) -> Path:
    """The file beside a command's log into which it writes how far it is."""
    return log.with_suffix(".progress")


def write_state(file: Path, state: ProgressState) -> None:
    """Write a state atomically; a disk that is full stops no command."""
    writing = file.with_name(f".{file.name}.writing")
    try:
        writing.write_text(json.dumps(to_json(state)))
        writing.replace(file)
    except OSError:
        return


def read_state(file: Path) -> ProgressState | None:
    """The state in a file, or None if there is none."""
    if not file.exists():
        return None
    try:
        return read_json(ProgressState, file)
    except HoldfastError:
        return None


def read_progress(log: Path) -> ProgressState:
    """How far a running command is, in the words of its progress or of its log."""
    return read_state(progress_file(log)) or ProgressState(last_line(log) or "starting")


def last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
