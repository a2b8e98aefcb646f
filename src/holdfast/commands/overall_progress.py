"""One bar for many commands: their shares of the work, those that are done, and how far the running ones are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from holdfast.core.clock import STEADY, Clock
from holdfast.recipes.recipe import CommandLine

# Minutes of all commands of a kind in the quickstart, when they did not overlap (docs/results.md).
_WEIGHTS = {"record": 1.8, "train": 4.8, "evaluate": 1.7, "report": 0.1}
_MEMORY = 600.0  # seconds whose speed decides the time left


class OverallProgress:
    """Progress of all commands of a recipe."""

    def __init__(self, commands: Sequence[CommandLine], clock: Clock = STEADY) -> None:
        self._kinds = Counter(command[0] for command in commands)
        self._all = sum(map(self._weight, commands))
        self._ended: set[CommandLine] = set()
        self._bar = Progress(
            TextColumn("in all"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            get_time=clock.now,
            speed_estimate_period=_MEMORY,
        )
        self._task = self._bar.add_task("", total=1.0)

    def end(self, *commands: CommandLine) -> None:
        """Commands are done."""
        self._ended.update(commands)

    def update(self, running: Iterable[tuple[CommandLine, float]]) -> RenderableType:
        """The bar, given the running commands and the share of each that is done."""
        self._bar.update(self._task, completed=self.share(running))
        return self._bar.get_renderable()

    def share(self, running: Iterable[tuple[CommandLine, float]]) -> float:
        """The share of all work that is done, from 0 to 1."""
        begun = sum(self._weight(command) * share for command, share in running)
        return (sum(map(self._weight, self._ended)) + begun) / self._all

    @property
    def seconds_left(self) -> float | None:
        """The time left at the speed so far, or None before anything moved."""
        return self._bar.tasks[0].time_remaining

    def _weight(self, command: CommandLine) -> float:
        return _WEIGHTS.get(command[0], 1.0) / self._kinds[command[0]]
